#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link_private.h"

static struct link_stream **stream_bucket(struct link *l, int32_t id)
{
	/* One side's ids are all odd. */
	return &l->buckets[((uint32_t)id >> 1) % LINK_BUCKETS];
}

struct link_stream *stream_find(struct link *l, int32_t id)
{
	struct link_stream *st = *stream_bucket(l, id);

	while (st && st->id != id)
		st = st->next;
	return st;
}

struct link_stream *stream_new(struct link *l, int32_t id)
{
	struct link_stream **bucket = stream_bucket(l, id);
	struct link_stream *st = calloc(1, sizeof(*st));

	if (!st)
		return NULL;
	st->l = l;
	st->id = id;
	st->content_length = -1;
	st->next = *bucket;
	*bucket = st;
	l->streams++;
	return st;
}

static void stream_unlink(struct link_stream *st)
{
	struct link_stream **at = stream_bucket(st->l, st->id);

	while (*at != st)
		at = &(*at)->next;
	*at = st->next;
	st->l->streams--;
	st->l->resets -= st->reset;
	st->l->starving -= st->feed;
}

void stream_close(struct link_stream *st, int err)
{
	stream_unlink(st);
	if (st->ops.closed)
		st->ops.closed(st, st->reset ? -ECANCELED : err, st->arg);
	ring_free(&st->out);
	free(st->path);
	free(st);
}

void stream_close_all(struct link *l, int err)
{
	for (unsigned i = 0; i < LINK_BUCKETS; i++)
		while (l->buckets[i])
			stream_close(l->buckets[i], err);
}

/* The first stream that reset (or else feed) holds for; callbacks change the
 * buckets, so the search starts over each time. */
static struct link_stream *stream_due(struct link *l, bool reset)
{
	for (unsigned i = 0; i < LINK_BUCKETS; i++)
		for (struct link_stream *st = l->buckets[i]; st; st = st->next)
			if (reset ? st->reset : st->feed)
				return st;
	return NULL;
}

static void stream_feed(struct link_stream *st)
{
	if (st->feed)
		return;
	st->feed = true;
	st->l->starving++;
}

void stream_later(struct link *l)
{
	for (unsigned i = 0; i < LINK_BUCKETS; i++)
		for (struct link_stream *st = l->buckets[i]; st; st = st->next)
			if (st->later) {
				st->later = false;
				stream_feed(st);
			}
}

void stream_settle(struct link *l)
{
	while (l->resets && !l->dropping)
		stream_close(stream_due(l, true), -ECANCELED);
	while (l->starving && !l->dropping) {
		struct link_stream *st = stream_due(l, false);

		st->feed = false;
		l->starving--;
		if (!st->reset && st->ops.writable)
			st->ops.writable(st, st->arg);
	}
}

/* nghttp2 asks for body bytes. By id: the stream may be gone on our side while
 * its RST_STREAM still waits on nghttp2's. */
static ssize_t stream_read(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
			   nghttp2_data_source *source, void *arg)
{
	struct link_stream *st = stream_find(arg, id);
	size_t n;

	(void)ng;
	(void)source;
	if (!st || st->reset)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	n = ring_get(&st->out, buf, len);
	if (st->starved && st->out.len <= LINK_STREAM_BUFFER / 2) {
		st->starved = false;
		stream_feed(st);
	}
	if (st->ended && st->out.len == 0) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		return (ssize_t)n;
	}
	if (n == 0) {
		st->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)n;
}

const nghttp2_data_provider stream_provider = { .read_callback = stream_read };

static nghttp2_nv stream_header(const char *name, const char *value)
{
	return (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name,
		.value = (uint8_t *)(uintptr_t)value,
		.namelen = strlen(name),
		.valuelen = strlen(value),
	};
}

int link_open(struct link *l, const char *method, const char *path, bool has_body,
	      const struct link_stream_ops *ops, void *arg, struct link_stream **ret)
{
	nghttp2_nv head[] = {
		stream_header(":method", method),
		stream_header(":scheme", "http"),
		stream_header(":authority", "carrel"),
		stream_header(":path", path),
	};
	struct link_stream *st;
	int32_t id;

	if (l->role != LINK_CLIENT || path[0] != '/' || strlen(path) > LINK_PATH_MAX)
		return -EINVAL;
	if (!link_is_up(l))
		return -ENOTCONN;
	if (l->streams >= LINK_STREAMS_MAX)
		return -EAGAIN;
	link_enter(l);
	id = nghttp2_submit_request(l->ng, NULL, head, sizeof(head) / sizeof(head[0]),
				    has_body ? &stream_provider : NULL, NULL);
	st = id > 0 ? stream_new(l, id) : NULL;
	if (id > 0 && !st)
		nghttp2_submit_rst_stream(l->ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
	if (id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE)
		link_fail(l, false, "the session ran out of stream numbers");
	if (st) {
		st->ops = *ops;
		st->arg = arg;
		st->answered = true;
		st->ended = !has_body;
		*ret = st;
	}
	link_leave(l);
	if (id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE)
		return -ENOTCONN;
	return st ? 0 : -ENOMEM;
}

void link_stream_bind(struct link_stream *st, const struct link_stream_ops *ops, void *arg)
{
	st->ops = *ops;
	st->arg = arg;
}

int link_respond(struct link_stream *st, int status, const char *content_type, int64_t content_length)
{
	char code[8], length[24];
	nghttp2_nv head[3];
	size_t n = 0;
	int err;

	if (!st->l->ng || st->reset)
		return -ENOTCONN;
	if (st->answered || st->l->role != LINK_SERVER || status < 200 || status > 599)
		return -EINVAL;
	snprintf(code, sizeof(code), "%d", status);
	head[n++] = stream_header(":status", code);
	if (content_type)
		head[n++] = stream_header("content-type", content_type);
	if (content_length >= 0) {
		snprintf(length, sizeof(length), "%lld", (long long)content_length);
		head[n++] = stream_header("content-length", length);
	}
	link_enter(st->l);
	err = nghttp2_submit_response(st->l->ng, st->id, head, n, &stream_provider);
	if (err == 0)
		st->answered = true;
	link_leave(st->l);
	return err == 0 ? 0 : err == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EINVAL;
}

static void stream_resume(struct link_stream *st)
{
	if (!st->deferred || !st->l->ng)
		return;
	st->deferred = false;
	nghttp2_session_resume_data(st->l->ng, st->id);
}

size_t link_write(struct link_stream *st, const void *bytes, size_t len)
{
	ptrdiff_t n;

	if (!st->l->ng || st->reset || st->ended)
		return 0;
	link_enter(st->l);
	n = ring_put(&st->out, bytes, len, LINK_STREAM_BUFFER);
	if (n < 0) {
		/* Without memory nothing would ever make it writable again. */
		link_reset(st);
		n = 0;
	} else if ((size_t)n < len) {
		st->starved = true;
	}
	if (n > 0)
		stream_resume(st);
	link_leave(st->l);
	return (size_t)n;
}

void link_write_later(struct link_stream *st)
{
	struct link *l = st->l;

	if (!l->ng || st->reset || st->later)
		return;
	link_enter(l);
	st->later = true;
	/* The timer of whoever drives this link has to be set anew. */
	if (!l->later_at && !l->kicked && l->ops.want_write)
		l->ops.want_write(l, l->arg);
	if (!l->later_at)
		l->later_at = l->now + LINK_LATER_MS;
	link_leave(l);
}

void link_end(struct link_stream *st)
{
	if (!st->l->ng || st->reset || st->ended)
		return;
	link_enter(st->l);
	st->ended = true;
	stream_resume(st);
	link_leave(st->l);
}

void link_reset(struct link_stream *st)
{
	struct link *l = st->l;

	if (st->reset)
		return;
	link_enter(l);
	st->reset = true;
	l->resets++;
	if (l->ng)
		nghttp2_submit_rst_stream(l->ng, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_CANCEL);
	link_leave(l);
}

void link_consume(struct link_stream *st, size_t n)
{
	struct link *l = st->l;

	if (n > st->unconsumed)
		n = st->unconsumed;
	if (!l->ng || n == 0)
		return;
	link_enter(l);
	st->unconsumed -= n;
	nghttp2_session_consume_stream(l->ng, st->id, n);
	link_leave(l);
}

int64_t link_content_length(const struct link_stream *st)
{
	return st->content_length;
}

struct link *link_of(struct link_stream *st)
{
	return st->l;
}
