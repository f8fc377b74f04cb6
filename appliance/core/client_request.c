/* Requests that are no execution: through the kernel's channel in the order in
 * which they came, behind the executions that came before them; their replies to
 * who asked. Interrupt and shutdown are done here. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "client_inner.h"

static const char *header_word(json_t *header, const char *key)
{
	const char *word = json_string_value(json_object_get(header, key));

	return word ? word : "";
}

void client_request_free(struct client_request *r)
{
	json_decref(r->header);
	free(r);
}

static bool type_is(const struct client_in *in, const char *type)
{
	return strcmp(header_word(in->header, "msg_type"), type) == 0;
}

static struct client_request *request_new(struct client *c, struct client_in *in)
{
	__attribute__((cleanup(buf_free))) struct buf b = { 0 };
	struct client_request *r;

	jupyter_payload(&b, in->channel, in->part, in->parts);
	r = b.failed ? NULL : malloc(sizeof(*r) + b.len);
	if (!r)
		return NULL;
	*r = (struct client_request){ .channel = in->channel,
				      .header = json_incref(in->header),
				      .len = b.len };
	memcpy(r->payload, b.bytes, b.len);
	snprintf(r->session, sizeof(r->session), "%s", c->session);
	snprintf(r->msg_id, sizeof(r->msg_id), "%s", header_word(in->header, "msg_id"));
	snprintf(r->msg_type, sizeof(r->msg_type), "%s", header_word(in->header, "msg_type"));
	/* Control and stdin go past what waits. */
	r->behind = in->channel == JUPYTER_SHELL ? c->kernel->entered : 0;
	return r;
}

static void client_interrupt(struct client *c, json_t *header)
{
	struct kernel *k = c->kernel;

	if (k->running)
		execution_interrupt(k->running);
	client_say_state(k, header, "busy");
	client_say(k, c->session, JUPYTER_CONTROL, "interrupt_reply", header,
		   json_pack("{s:s}", "status", "ok"));
	client_say_state(k, header, "idle");
}

static void client_shutdown(struct client *c, json_t *header, const struct client_in *in)
{
	struct kernel *k = c->kernel;
	json_t *content = json_parse_bounded(in->part[3].bytes, in->part[3].len, 256, 8);
	bool restart = json_is_true(json_object_get(content, "restart"));

	json_decref(content);
	client_say_state(k, header, "busy");
	client_say(k, c->session, in->channel, "shutdown_reply", header,
		   json_pack("{s:s,s:b}", "status", "ok", "restart", restart));
	client_say_state(k, header, "idle");
	if (restart && k->exists)
		kernel_restart_wanted(k);
	else if (!restart)
		kernel_delete(k);
}

void client_pass(struct client *c, struct client_in *in)
{
	struct kernel *k = c->kernel;
	struct client_request *r = NULL;
	bool control = in->channel == JUPYTER_CONTROL;

	if (control && type_is(in, "interrupt_request")) {
		client_interrupt(c, in->header);
	} else if ((control || in->channel == JUPYTER_SHELL) && type_is(in, "shutdown_request")) {
		client_shutdown(c, in->header, in);
	} else if (k->requests >= CLIENT_REQUESTS_MAX || !(r = request_new(c, in))) {
		client_say_refusal(k, c->session, in->channel, in->header, "QueueFull",
				   "Too many requests wait for this kernel.", true);
	} else {
		k->requests++;
		*k->passing_last = r;
		k->passing_last = &r->next;
		kernel_pump(k);
	}
	client_in_free(in);
}

static bool wants_reply(const struct client_request *r)
{
	size_t len = strlen(r->msg_type);

	return r->channel != JUPYTER_STDIN && len > 8 && strcmp(r->msg_type + len - 8, "_request") == 0;
}

static struct client_request *passing_take(struct kernel *k, struct client_request **at)
{
	struct client_request *r = *at;

	*at = r->next;
	if (!r->next)
		k->passing_last = at;
	r->next = NULL;
	return r;
}

void clients_pump(struct kernel *k)
{
	struct client_request **at = &k->passing, *r;
	uint64_t first = k->queue ? k->queue->entry : UINT64_MAX;
	int64_t seq;

	while ((r = *at) != NULL) {
		if (r->behind >= first) {
			at = &r->next;
			continue;
		}
		seq = channel_send(k->channel, 'J', true, r->payload, r->len);
		if (seq == -EAGAIN || seq == -ENOMEM)
			return;
		/* The row says how far our frames are numbered. */
		kernel_txn(k);
		passing_take(k, at);
		if (seq < 0) {
			client_say_refusal(k, r->session, r->channel, r->header, "TooLarge",
					   "The message is larger than 16 MiB.", true);
		} else if (wants_reply(r)) {
			r->seq = (uint64_t)seq;
			*k->asked_last = r;
			k->asked_last = &r->next;
			continue;
		}
		k->requests--;
		client_request_free(r);
	}
}

static void asked_done(struct kernel *k, struct client_request **at)
{
	struct client_request *r = *at;

	*at = r->next;
	if (!r->next)
		k->asked_last = at;
	k->requests--;
	client_request_free(r);
}

static struct client_request **asked_find(struct kernel *k, const char *msg_id)
{
	struct client_request **at = &k->asked;

	while (*at && strcmp((*at)->msg_id, msg_id) != 0)
		at = &(*at)->next;
	return at;
}

static struct client_msg *msg_new(const uint8_t *payload, size_t len)
{
	struct client_msg *m = malloc(sizeof(*m) + len);

	if (m) {
		*m = (struct client_msg){ .refs = 1, .len = len };
		memcpy(m->payload, payload, len);
	}
	return m;
}

/* Whose reply, or request for input, it is; NULL: nobody's that is known. */
static const char *reply_for(struct kernel *k, const struct jupyter_msg *m, struct client_request **at)
{
	const struct execution *e = k->running;

	if (e && e->asked && strcmp(m->parent_id, e->msg_id) == 0)
		return json_string_value(json_object_get(e->asked, "client"));
	return *at ? (*at)->session : NULL;
}

/* carreld's own requests around a cell are nobody's business. */
static bool is_inner(const struct jupyter_msg *m)
{
	const char *dash = strrchr(m->parent_id, '-');
	size_t len = strlen(m->parent_id);

	return dash && strncmp(m->parent_id, "exe-", 4) == 0 &&
	       (strcmp(dash, "-env") == 0 || strcmp(dash, "-probe") == 0 ||
		(len > 8 && strcmp(m->parent_id + len - 8, "-env-end") == 0));
}

void clients_deliver(struct kernel *k, const struct jupyter_msg *m, const uint8_t *payload, size_t len)
{
	struct client_request **at;
	struct client_msg *msg;
	const char *session;
	struct client *c;

	if (!k->clients || is_inner(m))
		return;
	msg = msg_new(payload, len);
	at = m->parent_id[0] ? asked_find(k, m->parent_id) : k->asked_last;
	if (m->channel == JUPYTER_IOPUB) {
		if (*at && m->type == JUPYTER_STATUS && strcmp(m->text, "idle") == 0)
			(*at)->idle = true;
		if (msg)
			clients_give(k, msg);
	} else {
		session = reply_for(k, m, at);
		c = session ? client_find(k, session) : NULL;
		if (msg && c)
			client_give(c, msg);
		if (*at && m->channel == (*at)->channel)
			(*at)->replied = true;
	}
	client_msg_unref(msg);
	/* Looked up again: a client that was too slow took its requests along with nothing else. */
	at = m->parent_id[0] ? asked_find(k, m->parent_id) : k->asked_last;
	if (*at && (*at)->idle && (*at)->replied)
		asked_done(k, at);
}

void clients_died(struct kernel *k, json_t *death, uint64_t last, bool restarting)
{
	struct client_request **at = &k->asked, *r;
	json_t *code = json_object_get(death, "exit_code");
	char words[160];

	client_death_words(words, sizeof(words),
			   json_is_integer(code) ? (int)(json_integer_value(code) & 0xff) : -1,
			   header_word(death, "signal"), header_word(death, "reason"));
	while ((r = *at) != NULL) {
		if (r->seq > last) {
			at = &r->next;
			continue;
		}
		if (!r->replied)
			client_say_refusal(k, r->session, r->channel, r->header, "KernelDied", words, false);
		else if (!r->idle)
			client_say_state(k, r->header, "idle");
		asked_done(k, at);
	}
	client_say_state(k, NULL, restarting ? "restarting" : "dead");
}
