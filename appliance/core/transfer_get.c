/* A file out of a sandbox: stream -> pipe -> worker. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jupyter.h"
#include "link/limits.h"
#include "transfer_inner.h"

static void get_push(struct transfer *t)
{
	size_t n;

	if (!t->pipe)
		return;
	if (bytepipe_worker_gone(t->pipe)) {
		if (t->stream)
			link_reset(t->stream);
		return;
	}
	n = bytepipe_hub_write(t->pipe, t->held.bytes + t->held_at, t->held.len - t->held_at);
	t->held_at += n;
	if (t->held_at == t->held.len)
		t->held.len = t->held_at = 0;
	/* The window opens by what the worker's side took. */
	if (t->stream && n > 0)
		link_consume(t->stream, n);
	if (!t->stream && t->held.len == 0) {
		transfer_close_pipe(t, NULL);
		transfer_over(t);
	}
}

static void get_pushed(void *arg)
{
	get_push(arg);
}

/* On the worker's thread. */
static void get_changed(void *arg)
{
	struct transfer *t = arg;

	hub_post(t->hub, &t->item, get_pushed, t);
}

static void get_response(struct link_stream *st, int status, void *arg)
{
	struct transfer *t = arg;
	struct transfer_waiter *w = t->getter;

	t->status = status;
	if (status != 200 || !w)
		return;
	hub_timer_stop(t->timer);
	t->getter = NULL;
	w->size = link_content_length(st);
	w->pipe = t->pipe;
	bytepipe_on_change(t->pipe, get_changed, t);
	hub_call_end(&w->call, 0);
}

static void get_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	struct transfer *t = arg;

	if (t->status != 200) {
		transfer_reply_data(st, bytes, len, arg);
		return;
	}
	buf_add(&t->held, bytes, len);
	if (t->held.failed || !t->pipe)
		link_reset(st);
	else
		get_push(t);
}

/* Nothing was handed to a worker: the answer is an error. */
static void get_refused(struct transfer *t, int err)
{
	struct transfer_waiter *w = t->getter;
	json_t *reply = NULL;

	if (!err && t->reply.len > 0)
		reply = json_parse_bounded(t->reply.bytes, t->reply.len, GUEST_VALUES_MAX, GUEST_DEPTH_MAX);
	t->getter = NULL;
	bytepipe_worker_close(t->pipe, NULL);
	transfer_close_pipe(t, NULL);
	transfer_over(t);
	err = transfer_fault(w->core, &w->call.fault, err, t->status, reply);
	json_decref(reply);
	hub_call_end(&w->call, err);
}

static void get_closed(struct link_stream *st, int err, void *arg)
{
	struct transfer *t = arg;
	struct fault f;

	(void)st;
	t->stream = NULL;
	err = transfer_error(t, err);
	if (t->getter) {
		get_refused(t, err);
	} else if (err < 0) {
		guest_fault(&f, err, 0, NULL);
		transfer_close_pipe(t, &f);
		transfer_over(t);
	} else {
		get_push(t);
	}
}

void transfer_get(struct transfer_waiter *w)
{
	static const struct link_stream_ops ops = { .response = get_response,
						    .data = get_data,
						    .closed = get_closed };
	struct transfer *t = transfer_open(w, "GET", false, &ops);

	if (!t)
		return;
	t->getter = w;
	hub_timer_set(t->timer, TRANSFER_ANSWER_MS);
}
