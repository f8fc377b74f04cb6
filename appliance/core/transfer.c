#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admission.h"
#include "jupyter.h"
#include "link/limits.h"
#include "transfer_inner.h"

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

void transfer_close_pipe(struct transfer *t, const struct fault *fault)
{
	if (t->pipe)
		bytepipe_hub_close(t->pipe, fault);
	t->pipe = NULL;
}

void transfer_over(struct transfer *t)
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

struct transfer *transfer_new(struct sandbox *sb)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct transfer){ .sandbox = sb, .hub = sb->core->hub };
	t->timer = hub_timer_new(t->hub, on_timeout, t);
	t->pipe = bytepipe_new();
	if (!t->timer || !t->pipe) {
		hub_timer_free(t->timer);
		transfer_close_pipe(t, NULL);
		free(t);
		return NULL;
	}
	t->next = sb->transfers;
	sb->transfers = t;
	return t;
}

const char *transfer_url(struct buf *b, const char *route, const char *path)
{
	buf_printf(b, "%s?path=", route);
	buf_add_url(b, path);
	return b->failed ? "" : b->bytes;
}

int transfer_error(const struct transfer *t, int err)
{
	if (t->timed_out)
		return -ETIMEDOUT;
	return err == -ECANCELED ? -ECONNRESET : err;
}

int transfer_fault(const struct core *c, struct fault *f, int err, int status, json_t *reply)
{
	const char *code = json_string_value(json_object_get(reply, "code"));

	/* What the host's disk does not take fails in the guest as a broken disk. */
	if (err == 0 && code && strcmp(code, "io") == 0 && admission_disk_full(c))
		return fault_set(f, ENOSPC, 507, "disk_full",
				 "The host's disk, which holds the sandbox's, is full: free space on the host. "
				 "The sandbox's own disk limit was not met; where its file system was damaged, make "
				 "a new sandbox.");
	return guest_fault(f, err, status, reply);
}

void transfer_fail(struct transfer_waiter *w, int err)
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

void transfer_reply_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	struct transfer *t = arg;

	link_consume(st, len);
	if (t->reply.len + len > AGENT_JSON_MAX)
		link_reset(st);
	else
		buf_add(&t->reply, bytes, len);
}

/* --- delete, list --- */

static void on_deleted(int err, int status, json_t *reply, void *arg)
{
	struct transfer_waiter *w = arg;

	if (err == 0 && status == 204)
		hub_call_end(&w->call, 0);
	else
		hub_call_end(&w->call, transfer_fault(w->core, &w->call.fault, err, status, reply));
}

static void on_listed(int err, int status, json_t *reply, void *arg)
{
	struct transfer_waiter *w = arg;

	if (err == 0 && status == 200 && json_is_array(json_object_get(reply, "entries"))) {
		w->result = json_incref(reply);
		hub_call_end(&w->call, 0);
	} else {
		hub_call_end(&w->call, transfer_fault(w->core, &w->call.fault, err, status, reply));
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
		transfer_fail(w, err == -ENOTCONN ? -ECONNRESET : err);
}

void transfer_delete(struct transfer_waiter *w)
{
	__attribute__((cleanup(buf_free))) struct buf url = { 0 };

	transfer_url(&url, "/files", w->path);
	if (w->recursive)
		buf_add_str(&url, "&recursive=1");
	small_request(w, "DELETE", url.failed ? "" : url.bytes, on_deleted);
}

void transfer_list(struct transfer_waiter *w)
{
	__attribute__((cleanup(buf_free))) struct buf url = { 0 };

	transfer_url(&url, "/files/list", w->path);
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
		transfer_close_pipe(t, NULL);
		transfer_over(t);
	}
}

struct transfer *transfer_open(struct transfer_waiter *w, const char *method, bool has_body,
			       const struct link_stream_ops *ops)
{
	struct sandbox *sb = sandbox_usable(w->core, w->owner, w->sandbox_id, &w->call.fault);
	__attribute__((cleanup(buf_free))) struct buf url = { 0 };
	struct transfer *t;
	int err;

	if (!sb) {
		hub_call_end(&w->call, -ENOENT);
		return NULL;
	}
	if (!guest_is_up(sb->guest)) {
		transfer_fail(w, -ECONNRESET);
		return NULL;
	}
	t = transfer_new(sb);
	if (!t) {
		transfer_fail(w, -ENOMEM);
		return NULL;
	}
	err = link_open(guest_link(sb->guest), method, transfer_url(&url, "/files", w->path), has_body, ops, t,
			&t->stream);
	if (err < 0) {
		/* The worker never sees this pipe: both references are ours. */
		bytepipe_worker_close(t->pipe, NULL);
		transfer_close_pipe(t, NULL);
		transfer_over(t);
		transfer_fail(w, err);
		return NULL;
	}
	return t;
}
