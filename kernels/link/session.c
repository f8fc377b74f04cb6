#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link_private.h"

/* A callback's answer once a drop is noted: stop, nothing more is wanted. */
static int session_verdict(const struct link *l)
{
	return l->dropping ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct link *l = arg;

	(void)ng;
	if (l->role != LINK_SERVER || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return session_verdict(l);
	if (l->streams >= LINK_STREAMS_MAX || !stream_new(l, frame->hd.stream_id))
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	return session_verdict(l);
}

static int request_header(struct link_stream *st, const uint8_t *name, size_t namelen, const uint8_t *value,
			  size_t len)
{
	if (namelen == 7 && memcmp(name, ":method", 7) == 0) {
		if (len >= sizeof(st->method))
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
		memcpy(st->method, value, len);
	} else if (namelen == 5 && memcmp(name, ":path", 5) == 0 && !st->path) {
		if (len > LINK_PATH_MAX)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
		st->path = strndup((const char *)value, len);
		if (!st->path)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return 0;
}

static void response_header(struct link_stream *st, const uint8_t *name, size_t namelen, const uint8_t *value,
			    size_t len)
{
	/* nghttp2 has checked that it is three digits. */
	if (namelen == 7 && memcmp(name, ":status", 7) == 0 && len == 3)
		st->status = (value[0] - '0') * 100 + (value[1] - '0') * 10 + (value[2] - '0');
	/* 18 digits fit an int64_t; nghttp2 has checked that they are digits. */
	if (namelen == 14 && memcmp(name, "content-length", 14) == 0 && len <= 18) {
		st->content_length = 0;
		for (size_t i = 0; i < len; i++)
			st->content_length = st->content_length * 10 + (value[i] - '0');
	}
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name, size_t namelen,
		     const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
	struct link *l = arg;
	struct link_stream *st = stream_find(l, frame->hd.stream_id);

	(void)ng;
	(void)flags;
	if (!st)
		return session_verdict(l);
	/* 32 a header is RFC 9113's own way to count. */
	st->header_bytes += namelen + len + 32;
	if (st->header_bytes > LINK_HEADERS_MAX)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (st->head_done)
		return session_verdict(l);
	if (l->role == LINK_SERVER)
		return request_header(st, name, namelen, value, len);
	response_header(st, name, namelen, value, len);
	return session_verdict(l);
}

static void request_announce(struct link_stream *st)
{
	struct link *l = st->l;
	int32_t id = st->id;
	char *query;
	struct link_request rq;

	st->head_done = true;
	if (!st->path || !l->ops.request) {
		link_reset(st);
		return;
	}
	query = strchr(st->path, '?');
	if (query)
		*query++ = '\0';
	rq = (struct link_request){ .method = st->method, .path = st->path, .query = query ? query : "" };
	l->ops.request(l, st, &rq, l->arg);
	st = stream_find(l, id);
	if (!st)
		return;
	free(st->path);
	st->path = NULL;
}

static void head_received(struct link_stream *st)
{
	if (st->head_done)
		return;
	if (st->l->role == LINK_SERVER) {
		request_announce(st);
		return;
	}
	if (st->status < 200)
		return;
	st->head_done = true;
	if (!st->reset && st->ops.response)
		st->ops.response(st, st->status, st->arg);
}

static void end_received(struct link_stream *st)
{
	st->eof = true;
	if (!st->reset && st->ops.eof)
		st->ops.eof(st, st->arg);
}

static int on_frame_recv(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct link *l = arg;
	struct link_stream *st;

	(void)ng;
	switch (frame->hd.type) {
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			l->pinging = false;
		break;
	case NGHTTP2_GOAWAY:
		link_fail(l, false, "the other side ended the session (HTTP/2 error %u)",
			  frame->goaway.error_code);
		break;
	case NGHTTP2_HEADERS:
		st = stream_find(l, frame->hd.stream_id);
		if (st)
			head_received(st);
		/* fall through */
	case NGHTTP2_DATA:
		if (l->dropping || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
			break;
		st = stream_find(l, frame->hd.stream_id);
		if (st)
			end_received(st);
		break;
	default:
		break;
	}
	return session_verdict(l);
}

static int on_data_chunk(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len,
			 void *arg)
{
	struct link *l = arg;
	struct link_stream *st = stream_find(l, id);

	(void)flags;
	/* Only a stream's own window is its owner's to hold shut: a few slow readers
	 * would close the connection's to everyone else. */
	nghttp2_session_consume_connection(ng, len);
	if (!st || st->reset || !st->ops.data) {
		nghttp2_session_consume_stream(ng, id, len);
		return session_verdict(l);
	}
	st->unconsumed += len;
	st->ops.data(st, bytes, len, st->arg);
	return session_verdict(l);
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *arg)
{
	struct link *l = arg;
	struct link_stream *st = stream_find(l, id);
	bool whole;

	(void)ng;
	if (!st)
		return session_verdict(l);
	/* A server that answered in full may say NO_ERROR before it read the whole request. */
	whole = code == NGHTTP2_NO_ERROR && (l->role == LINK_CLIENT ? st->eof : st->end_sent);
	stream_close(st, whole ? 0 : -ECANCELED);
	return session_verdict(l);
}

static int on_frame_send(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct link *l = arg;
	struct link_stream *st;

	if (frame->hd.type == NGHTTP2_GOAWAY) {
		/* nghttp2 says so only when the peer broke the protocol. */
		link_fail(l, true, "the other side broke HTTP/2 (error %u)", frame->goaway.error_code);
		return session_verdict(l);
	}
	if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return session_verdict(l);
	st = stream_find(l, frame->hd.stream_id);
	if (!st)
		return session_verdict(l);
	st->end_sent = true;
	/* Answered in full: the rest of the request is of no use (RFC 9113, 8.1). */
	if (l->role == LINK_SERVER && !st->eof)
		nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_NO_ERROR);
	return session_verdict(l);
}

/* A request that nghttp2 could not send never becomes a stream of its. */
static int on_frame_not_send(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *arg)
{
	struct link *l = arg;
	struct link_stream *st;

	(void)ng;
	(void)error;
	if (frame->hd.type != NGHTTP2_HEADERS)
		return session_verdict(l);
	st = stream_find(l, frame->hd.stream_id);
	if (st)
		stream_close(st, -ECANCELED);
	return session_verdict(l);
}

/* Errors that end one stream, which both sides' nghttp2 handle; all others mean
 * that the bytes cannot be trusted any further. */
static int on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *arg)
{
	struct link *l = arg;

	(void)ng;
	switch (error) {
	case NGHTTP2_ERR_REFUSED_STREAM:
	case NGHTTP2_ERR_STREAM_CLOSED:
	case NGHTTP2_ERR_HTTP_HEADER:
	case NGHTTP2_ERR_HTTP_MESSAGING:
		return session_verdict(l);
	default:
		link_fail(l, true, "the other side broke HTTP/2 (frame type %u: %s)", frame->hd.type,
			  nghttp2_strerror(error));
		return session_verdict(l);
	}
}

static nghttp2_session_callbacks *session_callbacks(void)
{
	nghttp2_session_callbacks *cb;

	if (nghttp2_session_callbacks_new(&cb) != 0)
		return NULL;
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_send);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
	return cb;
}

static nghttp2_session *session_new(struct link *l)
{
	nghttp2_session_callbacks *cb = session_callbacks();
	nghttp2_option *option = NULL;
	nghttp2_session *ng = NULL;
	int err;

	if (!cb || nghttp2_option_new(&option) != 0)
		goto out;
	/* Windows open as the owners consume, not as bytes arrive. */
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	nghttp2_option_set_peer_max_concurrent_streams(option, LINK_STREAMS_MAX);
	if (l->role == LINK_CLIENT)
		err = nghttp2_session_client_new2(&ng, cb, l, option);
	else
		err = nghttp2_session_server_new2(&ng, cb, l, option);
	if (err)
		ng = NULL;
out:
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(cb);
	return ng;
}

int session_start(struct link *l)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, LINK_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, LINK_STREAMS_MAX },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, LINK_HEADERS_MAX },
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
	};
	/* Only a client may speak of push. */
	size_t n = sizeof(settings) / sizeof(settings[0]) - (l->role == LINK_SERVER);
	nghttp2_session *ng = session_new(l);

	if (!ng)
		return -ENOMEM;
	if (nghttp2_submit_settings(ng, NGHTTP2_FLAG_NONE, settings, n) != 0 ||
	    nghttp2_session_set_local_window_size(ng, NGHTTP2_FLAG_NONE, 0, LINK_CONNECTION_WINDOW) != 0) {
		nghttp2_session_del(ng);
		return -ENOMEM;
	}
	l->ng = ng;
	l->ng_left = 0;
	return 0;
}

size_t session_pull(struct link *l, uint8_t *out, size_t max)
{
	size_t len = 0;

	while (len < max && !l->dropping) {
		size_t n;

		if (l->ng_left == 0) {
			ssize_t got;

			l->in_ng = true;
			got = nghttp2_session_mem_send(l->ng, &l->ng_ptr);
			l->in_ng = false;
			if (got < 0)
				link_fail(l, false, "HTTP/2 cannot go on: %s", nghttp2_strerror((int)got));
			if (got <= 0)
				break;
			l->ng_left = (size_t)got;
		}
		n = l->ng_left < max - len ? l->ng_left : max - len;
		memcpy(out + len, l->ng_ptr, n);
		l->ng_ptr += n;
		l->ng_left -= n;
		len += n;
	}
	return len;
}

void session_feed(struct link *l, const uint8_t *bytes, size_t len)
{
	ssize_t n;

	l->in_ng = true;
	n = nghttp2_session_mem_recv(l->ng, bytes, len);
	l->in_ng = false;
	if (n < 0)
		link_fail(l, n != NGHTTP2_ERR_NOMEM, "the other side broke HTTP/2: %s",
			  nghttp2_strerror((int)n));
	else if (nghttp2_session_get_outbound_queue_size(l->ng) > LINK_QUEUE_MAX)
		link_fail(l, true, "the other side asks and does not read the answers");
}
