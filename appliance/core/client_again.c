/* A cell that is asked again, because carreld was restarted and the client's session
 * with it: it is not run twice. What the client lacks of its outputs comes from
 * the event log, and where it has ended, its reply from its row. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_inner.h"

enum {
	/* Text and data that are sent again for one cell; the rest is in the store. */
	AGAIN_BYTES_MAX = 16 * 1024 * 1024,
	/* For the writer to come to where the client joined. */
	AGAIN_WAIT_MS = 5000,
};

bool client_again_read(const struct v1_part *metadata, struct client_again *ret)
{
	static const char key[] = "carrel_again";
	json_t *json, *again;
	bool ok;

	if (!memmem(metadata->bytes, metadata->len, key, sizeof(key) - 1))
		return false;
	json = json_parse_bounded(metadata->bytes, metadata->len, JUPYTER_VALUES_MAX, JUPYTER_DEPTH_MAX);
	again = json_object_get(json, key);
	ok = json_is_object(again);
	if (ok)
		*ret = (struct client_again){
			.text = (uint64_t)json_integer_value(json_object_get(again, "text")),
			.other = (uint64_t)json_integer_value(json_object_get(again, "other"))
		};
	json_decref(json);
	return ok;
}

static bool is_it(const struct execution *e, const char *msg_id, const char *session)
{
	json_t *header = json_object_get(e->asked, "header");
	const char *theirs = json_string_value(json_object_get(header, "session"));

	return e->asked && strcmp(e->msg_id, msg_id) == 0 && theirs && strcmp(theirs, session) == 0;
}

struct execution *client_again_find(const struct kernel *k, const char *msg_id, const char *session)
{
	struct execution *e;

	if (k->running && is_it(k->running, msg_id, session))
		return k->running;
	for (e = k->queue; e && !is_it(e, msg_id, session); e = e->next)
		;
	return e;
}

/* --- from events to messages --- */

struct replay {
	struct client_again have; /* what is still to be passed over */
	uint64_t until;
	size_t bytes;
	json_t *messages; /* [[msg_type, content]] */
	int64_t count;    /* the execution's */
	bool done;
};

static void add(struct replay *r, const char *type, json_t *content)
{
	json_array_append_new(r->messages, json_pack("[s,o]", type, content));
}

static void add_text(struct replay *r, const char *stream, json_t *text)
{
	const char *bytes = json_string_value(text);
	size_t len = json_string_length(text);

	if (r->have.text >= len) {
		r->have.text -= len;
		return;
	}
	bytes += r->have.text;
	len -= r->have.text;
	r->have.text = 0;
	add(r, "stream", json_pack("{s:s,s:s%}", "name", stream, "text", bytes, len));
}

static json_t *bundle(json_t *event, json_t *extra)
{
	json_t *data = json_object_get(event, "data"), *id = json_object_get(event, "display_id");

	json_object_set(extra, "data", data ? data : json_null());
	json_object_set_new(extra, "metadata", json_object());
	if (id)
		json_object_set_new(extra, "transient", json_pack("{s:O}", "display_id", id));
	return extra;
}

static void add_other(struct replay *r, const char *type, json_t *event)
{
	bool update = json_is_true(json_object_get(event, "update"));

	if (r->have.other > 0) {
		r->have.other--;
		return;
	}
	if (strcmp(type, "result") == 0)
		add(r, "execute_result",
		    bundle(event, json_pack("{s:I}", "execution_count", (json_int_t)r->count)));
	else if (strcmp(type, "display") == 0)
		add(r, update ? "update_display_data" : "display_data", bundle(event, json_object()));
	else if (strcmp(type, "error") == 0)
		add(r, "error",
		    json_pack("{s:O?,s:O?,s:O?}", "ename", json_object_get(event, "name"), "evalue",
			      json_object_get(event, "value"), "traceback",
			      json_object_get(event, "traceback")));
	else
		add(r, "clear_output", json_pack("{s:O?}", "wait", json_object_get(event, "wait")));
}

static void take_event(struct replay *r, const char *line, size_t len)
{
	json_t *event = json_loadb(line, len, 0, NULL);
	const char *type = json_string_value(json_object_get(event, "type"));
	uint64_t seq = (uint64_t)json_integer_value(json_object_get(event, "seq"));

	r->bytes += len;
	if (seq > r->until || r->bytes > AGAIN_BYTES_MAX)
		r->done = true;
	else if (!type)
		r->done = true;
	else if (strcmp(type, "started") == 0)
		r->count = json_integer_value(json_object_get(event, "execution_count"));
	else if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0)
		add_text(r, type, json_object_get(event, "text"));
	else if (strcmp(type, "result") == 0 || strcmp(type, "display") == 0 || strcmp(type, "error") == 0 ||
		 strcmp(type, "clear_output") == 0)
		add_other(r, type, event);
	r->done |= seq == r->until;
	json_decref(event);
}

static void read_log(struct replay *r, struct xlog *log)
{
	char *buf = malloc(XLOG_LINE_MAX + 1), *line, *end;
	struct xlog_reader *reader = NULL;
	ssize_t n = 0;

	if (!buf || xlog_reader_new(log, 0, &reader) < 0) {
		free(buf);
		return;
	}
	while (!r->done && (n = xlog_reader_read(reader, buf, XLOG_LINE_MAX + 1)) >= 0) {
		struct pollfd p = { .fd = xlog_reader_fd(reader), .events = POLLIN };

		if (n == 0 && poll(&p, 1, AGAIN_WAIT_MS) <= 0)
			break;
		for (line = buf; !r->done && line < buf + n; line = end + 1) {
			end = memchr(line, '\n', (size_t)(buf + n - line));
			take_event(r, line, (size_t)(end - line));
		}
	}
	xlog_reader_free(reader);
	free(buf);
}

/* The last event that was not told as it came; UINT64_MAX: all of it was before. */
static uint64_t until_of(const struct client_joined *joined, const char *id, bool live)
{
	unsigned i;

	for (i = 0; !live && i < CLIENT_ENDED; i++)
		live = strcmp(joined->ended[i], id) == 0;
	if (!live)
		return UINT64_MAX;
	return strcmp(joined->id, id) == 0 ? joined->seq : 0;
}

json_t *client_again_messages(struct core *c, const char *owner, const char *id, bool live,
			      const struct client_again *have, const struct client_joined *joined)
{
	struct replay r = { .have = *have, .until = until_of(joined, id, live), .messages = json_array() };
	struct xlog *log;

	if (r.messages && r.until > 0 && store_log_open(c->store, owner, id, &log) == 0) {
		read_log(&r, log);
		xlog_unref(log);
	}
	return r.messages;
}

/* --- the reply --- */

static json_t *reply_of(json_t *row)
{
	const char *status = json_string_value(json_object_get(row, "status"));
	json_t *count = json_object_get(row, "execution_count"), *outputs = json_object_get(row, "outputs"),
	       *one, *data;
	const char *signal = json_string_value(json_object_get(row, "signal"));
	const char *reason = json_string_value(json_object_get(row, "reason"));
	json_t *code = json_object_get(row, "exit_code");
	char words[160];
	size_t i;

	if (status && strcmp(status, "ok") == 0)
		return json_pack("{s:s,s:O?,s:[],s:{}}", "status", "ok", "execution_count", count, "payload",
				 "user_expressions");
	if (status && strcmp(status, "cancelled") == 0)
		return json_pack("{s:s,s:O?}", "status", "aborted", "execution_count", count);
	json_array_foreach(outputs, i, one)
	{
		data = json_object_get(one, "data");
		if (strcmp(json_string_value(json_object_get(one, "kind")), "error") == 0 && data)
			return json_pack("{s:s,s:O?,s:O?,s:O?,s:O?}", "status", "error", "execution_count",
					 count, "ename", json_object_get(data, "name"), "evalue",
					 json_object_get(data, "value"), "traceback",
					 json_object_get(data, "traceback"));
	}
	client_death_words(words, sizeof(words), json_is_integer(code) ? (int)json_integer_value(code) : -1,
			   signal, reason);
	return json_pack("{s:s,s:O?,s:s,s:s,s:[]}", "status", "error", "execution_count", count, "ename",
			 "KernelDied", "evalue", words, "traceback");
}

void client_again_say(struct client *c, json_t *header, json_t *messages, json_t *row)
{
	struct kernel *k = c->kernel;
	json_t *one;
	size_t i;

	json_array_foreach(messages, i, one)
		client_say(k, NULL, JUPYTER_IOPUB, json_string_value(json_array_get(one, 0)), header,
			   json_incref(json_array_get(one, 1)));
	if (!row)
		return;
	client_say(k, c->session, JUPYTER_SHELL, "execute_reply", header, reply_of(row));
	client_say_state(k, header, "idle");
}
