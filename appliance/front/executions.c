#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handlers.h"
#include "json_in.h"
#include "respond.h"
#include "stream.h"

enum {
	NAME_MAX_BYTES = 63,   /* of a language or kernel */
};

struct execute_body {
	struct field_text code;
	const char *language, *kernel_id;
	unsigned timeout_s;
	json_t *env;
};

#define AT(member) offsetof(struct execute_body, member)
static const struct field execute_fields[] = {
	{ "code", FIELD_TEXT, AT(code), 0, JSON_IN_MAX, .required = true },
	{ "language", FIELD_STRING, AT(language), 1, NAME_MAX_BYTES },
	{ "kernel_id", FIELD_STRING, AT(kernel_id), 1, STORE_ID_MAX - 1 },
	{ "timeout_s", FIELD_WHOLE, AT(timeout_s), 1, TIMEOUT_S_MAX },
	{ "env", FIELD_ENV, AT(env), 0, ENV_MAX },
	{ .type = FIELD_END },
};
#undef AT

int executions_start(struct request *r, struct fault *f)
{
	struct execute_body b = { .timeout_s = 0 };
	struct execute_spec spec;
	char id[STORE_ID_MAX];
	struct xlog *log;
	int err = request_fields(r, execute_fields, &b, f);

	if (err)
		return err;
	spec = (struct execute_spec){
		.code = b.code.text,
		.language = b.language,
		.kernel_id = b.kernel_id,
		.timeout_s = b.timeout_s,
		.env = b.env,
	};
	err = core_execute(r->core, r->owner, r->id, &spec, id, &log, f);
	return err ? err : stream_log(r, log, 0, f);
}

int executions_list(struct request *r, struct fault *f)
{
	const char *cursor;
	unsigned limit;
	json_t *list;
	int err = list_window(r, &limit, &cursor, f);

	if (err)
		return err;
	err = store_execution_list(r->store, r->owner, r->id, limit, cursor, &list);
	return err ? history_fault(r, f, err, "sandbox") : respond_json(r, 200, list, f);
}

int executions_get(struct request *r, struct fault *f)
{
	json_t *execution;
	int err = store_execution_get(r->store, r->owner, r->id, &execution);

	return err ? history_fault(r, f, err, "execution") : respond_json(r, 200, execution, f);
}

int executions_stream(struct request *r, struct fault *f)
{
	struct xlog *log;
	uint64_t after;
	int err = target_query_number(&r->target, "after", 0, INT64_MAX, 0, &after, f);

	if (err)
		return err;
	err = store_log_open(r->store, r->owner, r->id, &log);
	return err ? history_fault(r, f, err, "execution") : stream_log(r, log, after, f);
}

int executions_interrupt(struct request *r, struct fault *f)
{
	static const struct field none[] = { { .type = FIELD_END } };
	int err = request_fields(r, none, NULL, f);

	if (!err)
		err = core_execution_interrupt(r->core, r->owner, r->id, f);
	return err ? err : respond_empty(r, 204);
}

static int full_send(struct request *r, const struct output_full *o)
{
	char range[96] = "";
	bool whole = o->have >= o->total;
	int err;

	if (!whole && o->have > 0)
		snprintf(range, sizeof(range), "Content-Range: bytes 0-%" PRIu64 "/%" PRIu64 "\r\n",
			 o->have - 1, o->total);
	else if (!whole)
		snprintf(range, sizeof(range), "Content-Range: bytes */%" PRIu64 "\r\n", o->total);
	err = respond_head(r, whole ? 200 : 206, o->content_type, (int64_t)o->have, range);
	if (err || r->head_only)
		return err;
	return o->fd >= 0 ? stream_file(r, o->fd, o->have) : respond_write(r, o->text, o->have);
}

int executions_full(struct request *r, struct fault *f)
{
	struct output_full full = { .fd = -1 };
	int err = store_output_open(r->store, r->owner, r->id, (unsigned)strtoul(r->part, NULL, 10), &full);

	if (err)
		return history_fault(r, f, err, "output");
	err = full_send(r, &full);
	output_full_close(&full);
	return err;
}

int executions_erase(struct request *r, struct fault *f)
{
	int err = store_execution_erase(r->store, r->owner, r->id, f);

	return err ? err : respond_empty(r, 204);
}
