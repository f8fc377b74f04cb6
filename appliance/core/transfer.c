#include "transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jupyter.h"
#include "link/limits.h"

struct transfer {
	struct sandbox *sandbox;
	struct transfer *next;
	struct link_stream *stream; /* NULL once closed */
	struct bytepipe *pipe;      /* the hub's reference; NULL once closed */
	struct hub_item item, release;
	struct hub_timer *timer;
	struct hub *hub;
	int status;
	bool timed_out, body_done, worker_failed;

	/* put */
	struct file_put *put;
	struct buf reply;
	/* bytes that one side gave and the other has not taken; at most a stream window */
	struct buf held;
	size_t held_at;

	/* get */
	struct transfer_waiter *getter; /* until the head came */
};

static void transfer_free(void *arg)
{
	struct transfer *t = arg;

	buf_free(&t->reply);
	buf_free(&t->held);
	free(t);
}

static void transfer_unlist(struct transfer *t)
{
	struct transfer **at = &t->sandbox->transfers;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
}

static void pipe_close(struct transfer *t, const struct fault *fault)
{
	if (t->pipe)
		bytepipe_hub_close(t->pipe, fault);
	t->pipe = NULL;
}

/* The stream is gone and nobody waits: the memory goes once what was posted has run. */
static void transfer_over(struct transfer *t)
{
	transfer_unlist(t);
	hub_timer_free(t->timer);
	hub_post(t->hub, &t->release, transfer_free, t);
}

static void on_timeout(void *arg)
{
	struct transfer *t = arg;

	t->timed_out = true;
	if (t->stream)
		link_reset(t->stream);
}

static struct transfer *transfer_new(struct sandbox *sb)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct transfer){ .sandbox = sb, .hub = sb->core->hub };
	t->timer = hub_timer_new(t->hub, on_timeout, t);
	t->pipe = bytepipe_new();
	if (!t->timer || !t->pipe) {
		hub_timer_free(t->timer);
		pipe_close(t, NULL);
		free(t);
		return NULL;
	}
	t->next = sb->transfers;
	sb->transfers = t;
	return t;
}

/* "/files…?path=P" + tail, in b. */
static const char *files_url(struct buf *b, const char *route, const char *path)
{
	buf_printf(b, "%s?path=", route);
	buf_add_url(b, path);
	return b->failed ? "" : b->bytes;
}

static int stream_error(const struct transfer *t, int err)
{
	if (t->timed_out)
		return -ETIMEDOUT;
	return err == -ECANCELED ? -ECONNRESET : err;
}

static void waiter_fail(struct transfer_waiter *w, int err)
{
	struct fault *f = &w->call.fault;

	if (err == -ENOMEM)
		fault_set(f, ENOMEM, 503, "capacity", "Out of memory on the host.");
	else if (err == -EINVAL)
		fault_field(f, "bad_request", "path", "The path is too long.");
	else
		guest_fault(f, err, 0, NULL);
	if (f->status == 503)
		f->retry_after_s = 1;
	hub_call_end(&w->call, err);
}

/* --- put: worker -> pipe -> stream --- */

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

static void put_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	struct transfer *t = arg;

	link_consume(st, len);
	if (t->reply.len + len > AGENT_JSON_MAX)
		link_reset(st);
	else
		buf_add(&t->reply, bytes, len);
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
		hub_call_end(call, guest_fault(&call->fault, put->err, put->status, put->reply));
}

static void put_closed(struct link_stream *st, int err, void *arg)
{
	struct transfer *t = arg;
	struct file_put *put = t->put;

	(void)st;
	t->stream = NULL;
	pipe_close(t, NULL);
	put->err = stream_error(t, err);
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
	static const struct link_stream_ops ops = {
		.response = on_status, .data = put_data, .writable = put_writable, .closed = put_closed
	};
	struct sandbox *sb = sandbox_usable(w->core, w->owner, w->sandbox_id, &w->call.fault);
	__attribute__((cleanup(buf_free))) struct buf url = { 0 };
	struct transfer *t;
	int err;

	if (!sb) {
		hub_call_end(&w->call, -ENOENT);
		return;
	}
	if (!guest_is_up(sb->guest)) {
		waiter_fail(w, -ECONNRESET);
		return;
	}
	t = transfer_new(sb);
	if (!t) {
		waiter_fail(w, -ENOMEM);
		return;
	}
	err = link_open(guest_link(sb->guest), "PUT", files_url(&url, "/files", w->path), true, &ops, t,
			&t->stream);
	if (err < 0) {
		/* The worker never sees this pipe: both references are ours. */
		bytepipe_worker_close(t->pipe, NULL);
		pipe_close(t, NULL);
		transfer_over(t);
		waiter_fail(w, err);
		return;
	}
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

/* --- get: stream -> pipe -> worker --- */

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
		pipe_close(t, NULL);
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
		put_data(st, bytes, len, arg);
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
	pipe_close(t, NULL);
	transfer_over(t);
	err = guest_fault(&w->call.fault, err, t->status, reply);
	json_decref(reply);
	hub_call_end(&w->call, err);
}

static void get_closed(struct link_stream *st, int err, void *arg)
{
	struct transfer *t = arg;
	struct fault f;

	(void)st;
	t->stream = NULL;
	err = stream_error(t, err);
	if (t->getter) {
		get_refused(t, err);
	} else if (err < 0) {
		guest_fault(&f, err, 0, NULL);
		pipe_close(t, &f);
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
	struct sandbox *sb = sandbox_usable(w->core, w->owner, w->sandbox_id, &w->call.fault);
	__attribute__((cleanup(buf_free))) struct buf url = { 0 };
	struct transfer *t;
	int err;

	if (!sb) {
		hub_call_end(&w->call, -ENOENT);
		return;
	}
	if (!guest_is_up(sb->guest)) {
		waiter_fail(w, -ECONNRESET);
		return;
	}
	t = transfer_new(sb);
	if (!t) {
		waiter_fail(w, -ENOMEM);
		return;
	}
	err = link_open(guest_link(sb->guest), "GET", files_url(&url, "/files", w->path), false, &ops, t,
			&t->stream);
	if (err < 0) {
		bytepipe_worker_close(t->pipe, NULL);
		pipe_close(t, NULL);
		transfer_over(t);
		waiter_fail(w, err);
		return;
	}
	t->getter = w;
	hub_timer_set(t->timer, TRANSFER_ANSWER_MS);
}

/* --- delete, list --- */

static void on_deleted(int err, int status, json_t *reply, void *arg)
{
	struct transfer_waiter *w = arg;

	if (err == 0 && status == 204)
		hub_call_end(&w->call, 0);
	else
		hub_call_end(&w->call, guest_fault(&w->call.fault, err, status, reply));
}

static void on_listed(int err, int status, json_t *reply, void *arg)
{
	struct transfer_waiter *w = arg;

	if (err == 0 && status == 200 && json_is_array(json_object_get(reply, "entries"))) {
		w->result = json_incref(reply);
		hub_call_end(&w->call, 0);
	} else {
		hub_call_end(&w->call, guest_fault(&w->call.fault, err, status, reply));
	}
}

static void small_request(struct transfer_waiter *w, const char *method, const char *url, guest_cb cb)
{
	struct sandbox *sb = sandbox_usable(w->core, w->owner, w->sandbox_id, &w->call.fault);
	int err;

	if (!sb) {
		hub_call_end(&w->call, -ENOENT);
		return;
	}
	err = guest_call(sb->guest, method, url, NULL, TRANSFER_ANSWER_MS, cb, w);
	if (err < 0)
		waiter_fail(w, err == -ENOTCONN ? -ECONNRESET : err);
}

void transfer_delete(struct transfer_waiter *w)
{
	__attribute__((cleanup(buf_free))) struct buf url = { 0 };

	files_url(&url, "/files", w->path);
	if (w->recursive)
		buf_add_str(&url, "&recursive=1");
	small_request(w, "DELETE", url.failed ? "" : url.bytes, on_deleted);
}

void transfer_list(struct transfer_waiter *w)
{
	__attribute__((cleanup(buf_free))) struct buf url = { 0 };

	files_url(&url, "/files/list", w->path);
	buf_printf(&url, "&limit=%u", w->limit);
	if (w->cursor && w->cursor[0]) {
		buf_add_str(&url, "&after=");
		buf_add_url(&url, w->cursor);
	}
	small_request(w, "GET", url.failed ? "" : url.bytes, on_listed);
}

/* --- the sandbox ends --- */

void transfers_sandbox_ended(struct sandbox *sb)
{
	struct transfer *t, *next;

	for (t = sb->transfers; t; t = next) {
		next = t->next;
		/* closed() follows and ends it. */
		if (t->stream) {
			link_reset(t->stream);
			continue;
		}
		/* A get whose last bytes the worker has not fetched. */
		pipe_close(t, NULL);
		transfer_over(t);
	}
}
