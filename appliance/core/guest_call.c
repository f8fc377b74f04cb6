#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../store/clip.h"
#include "buf.h"
#include "guest_inner.h"
#include "jupyter.h"
#include "link/limits.h"

struct guest_request {
	struct guest *guest;
	struct link_stream *stream;
	char *body;
	size_t body_len, body_sent;
	struct buf in;
	int status, err;
	struct hub_timer *timer;
	guest_cb cb;
	void *arg;
};

static void request_free(struct guest_request *r)
{
	hub_timer_free(r->timer);
	buf_free(&r->in);
	free(r->body);
	free(r);
}

static void request_push(struct guest_request *r)
{
	r->body_sent += link_write(r->stream, r->body + r->body_sent, r->body_len - r->body_sent);
	if (r->body_sent == r->body_len)
		link_end(r->stream);
}

static void on_response(struct link_stream *st, int status, void *arg)
{
	struct guest_request *r = arg;

	(void)st;
	r->status = status;
}

static void on_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	struct guest_request *r = arg;

	link_consume(st, len);
	if (r->err)
		return;
	buf_add(&r->in, bytes, len);
	if (r->in.failed || r->in.len > AGENT_JSON_MAX) {
		r->err = -EBADMSG;
		link_reset(st);
	}
}

static void on_writable(struct link_stream *st, void *arg)
{
	(void)st;
	request_push(arg);
}

static void on_closed(struct link_stream *st, int err, void *arg)
{
	struct guest_request *r = arg;
	json_t *reply = NULL;

	(void)st;
	if (r->err)
		err = r->err;
	else if (r->guest->freeing)
		err = -ECANCELED;
	else if (err == -ECANCELED)
		err = -ECONNRESET;
	if (!err && r->status < 100)
		err = -EBADMSG;
	if (!err && r->in.len > 0) {
		reply = json_parse_bounded(r->in.bytes, r->in.len, GUEST_VALUES_MAX, GUEST_DEPTH_MAX);
		if (!json_is_object(reply))
			err = -EBADMSG;
	}
	r->cb(err, r->status, err ? NULL : reply, r->arg);
	json_decref(reply);
	request_free(r);
}

static void on_timeout(void *arg)
{
	struct guest_request *r = arg;

	r->err = -ETIMEDOUT;
	link_reset(r->stream);
}

int guest_call(struct guest *g, const char *method, const char *path, json_t *body, unsigned timeout_ms,
	       guest_cb cb, void *arg)
{
	static const struct link_stream_ops ops = {
		.response = on_response, .data = on_data, .writable = on_writable, .closed = on_closed
	};
	struct guest_request *r;
	int err = -ENOMEM;

	if (!g)
		return -ENOTCONN;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct guest_request){ .guest = g, .cb = cb, .arg = arg };
	r->timer = hub_timer_new(g->hub, on_timeout, r);
	r->body = body ? json_dumps(body, JSON_COMPACT) : NULL;
	r->body_len = r->body ? strlen(r->body) : 0;
	if (r->timer && (!body || r->body))
		err = link_open(g->link, method, path, body != NULL, &ops, r, &r->stream);
	if (err < 0) {
		request_free(r);
		return err;
	}
	hub_timer_set(r->timer, timeout_ms);
	if (body)
		request_push(r);
	return 0;
}

static const struct {
	const char *code;
	int status, error;
} known[] = {
	{ "no_such_file", 404, ENOENT },
	{ "is_a_directory", 400, EISDIR },
	{ "disk_full", 507, ENOSPC },
	{ "bad_request", 400, EINVAL },
	{ "not_a_directory", 400, ENOTDIR },
	{ "no_such_program", 400, ENOENT },
	{ "wrong_state", 409, EBUSY },
	{ "limit", 429, EAGAIN },
	{ "permission_denied", 403, EACCES },
	{ "not_empty", 409, ENOTEMPTY },
	{ "forbidden", 403, EACCES },
	{ "exists", 409, EEXIST },
	{ "too_large", 413, E2BIG },
	/* A program that is being written, a sandbox without memory or processes to spare: its owner's doing.
	 */
	{ "process_start", 409, EBUSY },
	{ "kernel_start", 409, EBUSY },
};

/* The guest's sentence, with what could spoil a terminal or a log taken out. */
static void sentence_copy(char *to, size_t size, const char *from)
{
	size_t i;

	snprintf(to, size, "%s", from);
	to[utf8_head_cut(to, strlen(to))] = '\0';
	for (i = 0; to[i]; i++) {
		if ((unsigned char)to[i] < ' ' || to[i] == 0x7f)
			to[i] = '?';
	}
}

int guest_fault(struct fault *f, int err, int status, json_t *reply)
{
	const char *code = json_string_value(json_object_get(reply, "code"));
	const char *message = json_string_value(json_object_get(reply, "message"));
	char sentence[256];
	size_t i;

	if (err < 0) {
		fault_set(f, -err, 503, err == -ETIMEDOUT ? "guest_timeout" : "guest_lost",
			  err == -ETIMEDOUT ? "The sandbox did not answer in time. Try again; if it stays "
					      "so, make a new one."
					    : "The connection to the sandbox was lost; try again.");
		f->retry_after_s = 1;
		return err;
	}
	sentence_copy(sentence, sizeof(sentence), message ? message : "The sandbox refused the request.");
	for (i = 0; code && i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(code, known[i].code) != 0)
			continue;
		fault_set(f, known[i].error, known[i].status, known[i].code, "%s", sentence);
		if (known[i].status == 429)
			f->retry_after_s = 1;
		return -known[i].error;
	}
	return fault_set(
		f, EIO, 502, "guest_error",
		"Something inside the sandbox failed (%d): %s Try again; if it stays so, make a new sandbox.",
		status, sentence);
}
