/* What carreld says in a kernel's place: the queue's answers, and deaths. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "client_inner.h"
#include "times.h"

void client_say(struct kernel *k, const char *session, enum jupyter_channel channel, const char *msg_type,
		json_t *parent, json_t *content)
{
	__attribute__((cleanup(buf_free))) struct buf b = { 0 };
	struct client *c = session ? client_find(k, session) : NULL;
	struct client_msg *m = NULL;
	char id[UUID_SIZE];

	if (content && (session ? c != NULL : k->clients != NULL)) {
		uuid_new(id);
		jupyter_message(&b, channel, id, k->session, msg_type, parent, content);
		m = b.failed ? NULL : malloc(sizeof(*m) + b.len);
	}
	json_decref(content);
	if (!m)
		return;
	*m = (struct client_msg){ .refs = 1, .len = b.len };
	memcpy(m->payload, b.bytes, b.len);
	if (c)
		client_give(c, m);
	else
		clients_give(k, m);
	client_msg_unref(m);
}

void client_say_state(struct kernel *k, json_t *parent, const char *state)
{
	client_say(k, NULL, JUPYTER_IOPUB, "status", parent, json_pack("{s:s}", "execution_state", state));
}

static json_t *error_content(const char *ename, const char *evalue)
{
	char line[512];

	snprintf(line, sizeof(line), "%s: %s", ename, evalue);
	return json_pack("{s:s,s:s,s:[s]}", "ename", ename, "evalue", evalue, "traceback", line);
}

static void say_reply(struct kernel *k, const char *session, enum jupyter_channel channel, json_t *header,
		      json_t *content)
{
	const char *type = json_string_value(json_object_get(header, "msg_type"));
	size_t len = type ? strlen(type) : 0;
	char reply[80];

	/* What is no request has no reply. */
	if (channel == JUPYTER_STDIN || len < 8 || len >= sizeof(reply) ||
	    strcmp(type + len - 8, "_request") != 0) {
		json_decref(content);
		return;
	}
	snprintf(reply, sizeof(reply), "%.*s_reply", (int)(len - 8), type);
	client_say(k, session, channel, reply, header, content);
}

void client_say_refusal(struct kernel *k, const char *session, enum jupyter_channel channel, json_t *header,
			const char *ename, const char *evalue, bool busy)
{
	json_t *content = error_content(ename, evalue);

	json_object_set_new(content, "status", json_string("error"));
	json_object_set_new(content, "execution_count", json_integer(k->execution_count));
	if (busy)
		client_say_state(k, header, "busy");
	say_reply(k, session, channel, header, content);
	client_say_state(k, header, "idle");
}

void client_death_words(char *ret, size_t size, int exit_code, const char *signal, const char *reason)
{
	char what[80] = "it was ended";

	if (signal && *signal)
		snprintf(what, sizeof(what), "%s", signal);
	else if (exit_code >= 0)
		snprintf(what, sizeof(what), "exit code %d", exit_code);
	if (reason && *reason)
		snprintf(ret, size, "%s (%s)", what, reason);
	else
		snprintf(ret, size, "%s", what);
}

void client_execution_text(struct execution *e, const char *text)
{
	if (e->asked)
		client_say(e->kernel, NULL, JUPYTER_IOPUB, "stream", json_object_get(e->asked, "header"),
			   json_pack("{s:s,s:s}", "name", "stderr", "text", text));
}

/* --- the end of an execution --- */

static const char *session_of(json_t *asked)
{
	const char *session = json_string_value(json_object_get(json_object_get(asked, "header"), "session"));

	return session ? session : "";
}

static bool stops_queue(const struct execution *e)
{
	json_t *content = json_object_get(e->asked, "content");

	return strcmp(e->status, "ok") != 0 && strcmp(e->status, "cancelled") != 0 &&
	       !json_is_true(json_object_get(content, "silent")) &&
	       !json_is_false(json_object_get(content, "stop_on_error"));
}

void client_execution_failed(struct execution *e)
{
	const char *session = json_string_value(json_object_get(e->asked, "client"));
	struct client *c = session ? client_find(e->kernel, session) : NULL;

	e->stops = e->kernel->entered;
	if (!c || !stops_queue(e))
		return;
	c->stopped = c->count;
	snprintf(c->stopped_session, sizeof(c->stopped_session), "%s", session_of(e->asked));
}

/* After an error, cells of the same session that waited by then are not run. */
static void queue_abort(struct execution *e)
{
	struct execution *other = e->kernel->queue, *next;

	for (; other; other = next) {
		next = other->next;
		if (other->asked && other->entry <= e->stops &&
		    strcmp(session_of(other->asked), session_of(e->asked)) == 0)
			execution_end(other, "cancelled", REASON_AFTER_ERROR);
	}
}

void client_say_aborted(struct kernel *k, const char *session, json_t *header)
{
	client_say_state(k, header, "busy");
	client_say(k, session, JUPYTER_SHELL, "execute_reply", header,
		   json_pack("{s:s,s:I}", "status", "aborted", "execution_count",
			     (json_int_t)k->execution_count));
	client_say_state(k, header, "idle");
}

static void say_died(struct execution *e, json_t *header)
{
	bool timeout = strcmp(e->status, "timeout") == 0;
	const char *ename = timeout ? "TimeoutError" : "KernelDied";
	char words[160];

	client_death_words(words, sizeof(words), e->exit_code, e->signal, e->reason);
	client_say(e->kernel, NULL, JUPYTER_IOPUB, "error", header, error_content(ename, words));
	client_say_refusal(e->kernel, json_string_value(json_object_get(e->asked, "client")), JUPYTER_SHELL,
			   header, ename, words, false);
}

static void note_ended(const struct execution *e)
{
	const char *session = json_string_value(json_object_get(e->asked, "client"));
	struct client *c = session ? client_find(e->kernel, session) : NULL;

	if (c)
		snprintf(c->joined.ended[c->joined.ended_count++ % CLIENT_ENDED], STORE_ID_MAX, "%s", e->id);
}

void client_execution_ended(struct execution *e)
{
	json_t *header = json_object_get(e->asked, "header");

	if (!e->began_mono_ms && !e->replied)
		client_say_aborted(e->kernel, json_string_value(json_object_get(e->asked, "client")), header);
	else if (!e->replied)
		say_died(e, header);
	else if (!e->idle)
		client_say_state(e->kernel, header, "idle");
	note_ended(e);
	/* One that died had no word of its own. */
	if (!e->stops)
		client_execution_failed(e);
	if (stops_queue(e))
		queue_abort(e);
}
