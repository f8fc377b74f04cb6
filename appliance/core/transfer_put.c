/* A file into a sandbox: worker -> pipe -> stream. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jupyter.h"
#include "link/limits.h"
#include "transfer_inner.h"

static void put_push(struct transfer *t)
{
	char chunk[64 * 1024];

	while (t->stream && t->pipe && !t->body_done) {
		ssize_t n;

		if (t->held_at < t->held.len) {
			t->held_at +=
				link_write(t->stream, t->held.bytes + t->held_at, t->held.len - t->held_at);
			if (t->held_at < t->held.len)
				return;
		}
		t->held.len = t->held_at = 0;
		n = bytepipe_hub_read(t->pipe, chunk, sizeof(chunk));
		if (n == 0)
			return;
		if (n == -ENODATA) {
			t->body_done = true;
			link_end(t->stream);
			hub_timer_set(t->timer, TRANSFER_ANSWER_MS);
		} else if (n < 0) {
			/* The body broke off: reset, so that nothing is replaced. */
			t->worker_failed = true;
			link_reset(t->stream);
			return;
		} else {
			buf_add(&t->held, chunk, (size_t)n);
		}
	}
}

static void put_pushed(void *arg)
{
	put_push(arg);
}

/* On the worker's thread. */
static void put_changed(void *arg)
{
	struct transfer *t = arg;

	hub_post(t->hub, &t->item, put_pushed, t);
}

static void on_status(struct link_stream *st, int status, void *arg)
{
	struct transfer *t = arg;

	(void)st;
	t->status = status;
}

static void put_writable(struct link_stream *st, void *arg)
{
	(void)st;
	put_push(arg);
}

static void put_call_end(struct file_put *put)
{
	struct hub_call *call = &put->call;

	if (put->err == 0 && (put->status == 200 || put->status == 201) && put->reply)
		hub_call_end(call, 0);
	else
		hub_call_end(call,
			     transfer_fault(put->core, &call->fault, put->err, put->status, put->reply));
}

static void put_closed(struct link_stream *st, int err, void *arg)
{
	struct transfer *t = arg;
	struct file_put *put = t->put;

	(void)st;
	t->stream = NULL;
	transfer_close_pipe(t, NULL);
	put->err = transfer_error(t, err);
	put->status = t->status;
	if (!put->err && t->reply.len > 0)
		put->reply =
			json_parse_bounded(t->reply.bytes, t->reply.len, GUEST_VALUES_MAX, GUEST_DEPTH_MAX);
	put->over = true;
	put->transfer = NULL;
	if (put->waiting)
		put_call_end(put);
	transfer_over(t);
}

void transfer_put_begin(struct transfer_waiter *w)
{
	static const struct link_stream_ops ops = { .response = on_status,
						    .data = transfer_reply_data,
						    .writable = put_writable,
						    .closed = put_closed };
	struct transfer *t = transfer_open(w, "PUT", true, &ops);

	if (!t)
		return;
	t->put = w->put;
	w->put->transfer = t;
	w->pipe = t->pipe;
	bytepipe_on_change(t->pipe, put_changed, t);
	hub_call_end(&w->call, 0);
}

void transfer_put_finish(struct hub_call *call)
{
	struct file_put *put = (struct file_put *)call;

	put->waiting = true;
	if (put->over)
		put_call_end(put);
	/* else put_closed() ends it */
}
