#include <string.h>

#include "../hatch/hatch.h"
#include "handlers.h"
#include "respond.h"

struct kernel_body {
	const char *language, *name, *cwd;
};

#define AT(member) offsetof(struct kernel_body, member)
static const struct field kernel_fields[] = {
	{ "language", FIELD_STRING, AT(language), 1, KERNEL_NAME_MAX - 1 },
	{ "name", FIELD_STRING, AT(name), 1, KERNEL_NAME_MAX - 1 },
	{ "cwd", FIELD_STRING, AT(cwd), 1, KERNEL_CWD_MAX },
	{ .type = FIELD_END },
};
#undef AT

static const struct field no_fields[] = { { .type = FIELD_END } };

int kernels_list(struct request *r, struct fault *f)
{
	const char *cursor;
	unsigned limit;
	json_t *list;
	int err = list_window(r, &limit, &cursor, f);

	if (!err)
		err = core_kernel_list(r->core, r->owner, r->id, limit, cursor, &list, f);
	return err ? err : respond_json(r, 200, list, f);
}

int kernels_create(struct request *r, struct fault *f)
{
	struct kernel_body b = { .name = NULL };
	struct kernel_spec spec;
	json_t *kernel;
	int err = request_fields(r, kernel_fields, &b, f);

	if (err)
		return err;
	if (b.language && b.name)
		return fault_field(f, "bad_request", "name",
				   "Choose a kernel by its language or by its name, not by both.");
	spec = (struct kernel_spec){ .language = b.language, .name = b.name, .cwd = b.cwd };
	err = core_kernel_create(r->core, r->owner, r->id, &spec, &kernel, f);
	return err ? err : respond_json(r, 201, kernel, f);
}

int kernels_restart(struct request *r, struct fault *f)
{
	json_t *kernel;
	int err = request_fields(r, no_fields, NULL, f);

	if (!err)
		err = core_kernel_restart(r->core, r->owner, r->id, &kernel, f);
	return err ? err : respond_json(r, 200, kernel, f);
}

int kernels_interrupt(struct request *r, struct fault *f)
{
	int err = request_fields(r, no_fields, NULL, f);

	if (!err)
		err = core_kernel_interrupt(r->core, r->owner, r->id, f);
	return err ? err : respond_empty(r, 204);
}

int kernels_delete(struct request *r, struct fault *f)
{
	int err = core_kernel_delete(r->core, r->owner, r->id, f);

	return err ? err : respond_empty(r, 204);
}

static int query_transport(struct request *r, enum hatch_transport *ret, struct fault *f)
{
	const char *word = NULL;
	int err = target_query(&r->target, "transport", &word, f);

	if (err)
		return err;
	if (word && strcmp(word, "ipc") != 0 && strcmp(word, "tcp") != 0)
		return fault_field(f, "bad_query", "transport", "transport is ipc or tcp.");
	if (word && word[0] == 't')
		*ret = HATCH_TCP;
	return 0;
}

/* The file is a right of its own: who has it needs no key. */
static void connection_audit(struct request *r)
{
	struct store_txn *t = store_txn_new(r->store);
	json_t *detail = json_pack("{s:s}", "kernel_id", r->id);

	store_txn_soft(t);
	store_txn_audit(t, r->owner, NULL, "connection_file", detail);
	store_txn_submit(t, NULL, NULL);
	json_decref(detail);
}

int kernels_connection(struct request *r, struct fault *f)
{
	enum hatch_transport transport = HATCH_IPC;
	json_t *file;
	int err = query_transport(r, &transport, f);

	if (!err)
		err = hatch_open(r->hatches, r->owner, r->id, transport, &file, f);
	if (!err)
		connection_audit(r);
	return err ? err : respond_json(r, 200, file, f);
}
