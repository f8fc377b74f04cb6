/* One end of the link between carreld and the agent: HTTP/2 over
 * self-synchronising records, over any byte stream.
 *
 * Layers, from the wire up:
 *   1. COBS records ended by 0x00, at most LINK_RECORD_MAX. The first byte of a
 *      decoded record is its kind: HELLO, HELLO_ACK or DATA.
 *   2. HELLO {kind 'h', version u8, 16 random bytes}: the client opens with it
 *      and repeats it until HELLO_ACK {kind 'a', version u8, the same bytes}
 *      arrives. A matching pair starts a fresh HTTP/2 session on both sides; a
 *      new HELLO at any time drops the old session and starts another. Until
 *      the pair matches every other record is ignored, so bytes left from
 *      before a snapshot, a clone or a restart do no harm.
 *      DATA {kind 'd', the last 4 bytes of the HELLO's 16 (session tag), u32
 *      number, u16 length, bytes, the number again}: DATA with another tag is
 *      stale and ignored. Numbers count 0, 1, 2, … per direction: a record seen
 *      before is ignored, one missing (or glued of two) drops the session.
 *      RESET {kind 'r', tag}: the server has no session of this tag (any more);
 *      a client whose tag it is opens with a fresh HELLO. So it answers a HELLO
 *      whose session ended, too: no session starts twice.
 *   3. HTTP/2 (RFC 9113) by nghttp2, without TLS, prior knowledge.
 *
 * This file does no I/O and owns no clock: the caller feeds received bytes,
 * drains bytes to send and ticks it. link_uv.h binds it to a descriptor in a
 * libuv loop. Not thread-safe: one loop owns a link.
 *
 * Callbacks may call any link_* function except link_free() on the same link.
 */
#ifndef CARREL_LINK_H
#define CARREL_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct link;
struct link_stream;

enum link_role { LINK_CLIENT, LINK_SERVER };

/* A request as the server sees it. Strings live until the callback returns. */
struct link_request {
	const char *method; /* "GET", "PUT", "POST", "DELETE" */
	const char *path;   /* without the query */
	const char *query;  /* without '?'; "" when there is none; still percent-encoded */
};

/* What the owner of a stream is told. Any member may be NULL. */
struct link_stream_ops {
	/* Client: the response's status. */
	void (*response)(struct link_stream *st, int status, void *arg);
	/* Body bytes. They count against the receive window until link_consume(). */
	void (*data)(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg);
	/* The peer's half is complete. */
	void (*eof)(struct link_stream *st, void *arg);
	/* link_write() accepts bytes again after it accepted less than asked. */
	void (*writable)(struct link_stream *st, void *arg);
	/* The stream is gone; err is 0 after both halves ended, else a negative
	 * errno (-ECONNRESET: the link was lost, -ECANCELED: reset by the peer).
	 * Called exactly once for every stream; st is invalid afterwards. */
	void (*closed)(struct link_stream *st, int err, void *arg);
};

struct link_ops {
	/* A session is up; a client may open streams now. */
	void (*up)(struct link *l, void *arg);
	/* The session is gone; every stream's closed() was called before. Also called,
	 * without up(), when the other side speaks another version of the link. */
	void (*down)(struct link *l, const char *why, void *arg);
	/* Server: a request arrived. Set the stream's ops by link_stream_bind()
	 * before returning; answer now or later by link_respond(). */
	void (*request)(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg);
	/* Bytes wait in link_pending(); called on the edge from none to some. */
	void (*want_write)(struct link *l, void *arg);
};

/* Returns NULL only when out of memory. arg is passed to every op. */
struct link *link_new(enum link_role role, const struct link_ops *ops, void *arg);
/* Closes every stream (closed() with -ECONNRESET), frees. Accepts NULL. */
void link_free(struct link *l);

/* Client: forget the session if any and open with a fresh HELLO. */
void link_hello(struct link *l);
/* Drop the session, telling why; a client then sends a fresh HELLO. */
void link_drop(struct link *l, const char *why);
bool link_is_up(const struct link *l);
/* In down() and until the next up(): the session ended because the peer broke
 * HTTP/2, not because bytes or the peer were lost. */
bool link_was_broken(const struct link *l);

/* Feed bytes from the transport. Returns 0, or -EPROTO when the peer broke
 * HTTP/2: the session was dropped (down() tells why), the link itself goes on.
 * -EBUSY from inside a callback about a stream: feed it afterwards. */
int link_receive(struct link *l, const uint8_t *bytes, size_t len);
/* Bytes to send: *ret points into the link until the next call. Returns their
 * count, 0 when there is nothing. */
size_t link_pending(struct link *l, const uint8_t **ret);
/* The transport took n of them. */
void link_sent(struct link *l, size_t n);
/* Milliseconds of a monotonic clock; drives HELLO repeats and PINGs. Returns
 * milliseconds until the next tick is due. */
unsigned link_tick(struct link *l, uint64_t now_ms);

/* Client: open a stream. path carries the query. has_body false ends our half
 * at once. Returns 0, -ENOTCONN, -EAGAIN (too many streams), -EINVAL (path over
 * LINK_PATH_MAX or not absolute) or -ENOMEM. */
int link_open(struct link *l, const char *method, const char *path, bool has_body,
	      const struct link_stream_ops *ops, void *arg, struct link_stream **ret);
/* Server: who owns the stream from now on. */
void link_stream_bind(struct link_stream *st, const struct link_stream_ops *ops, void *arg);
/* Server: the response's head, once. content_type may be NULL. content_length < 0:
 * unknown. Returns 0, -ENOTCONN (the stream is gone), -EINVAL or -ENOMEM. */
int link_respond(struct link_stream *st, int status, const char *content_type, int64_t content_length);
/* Queue body bytes. Returns how many were taken (0..len), bounded by
 * LINK_STREAM_BUFFER; less than len promises a later writable(). */
size_t link_write(struct link_stream *st, const void *bytes, size_t len);
/* Something is to be written that need not hurry: writable() is called LINK_LATER_MS
 * from now at the latest. */
void link_write_later(struct link_stream *st);
/* Our half is complete once what was written is out. A server that ends before the
 * request did gets no more of it: closed() follows with 0. */
void link_end(struct link_stream *st);
/* Give up the stream; closed() follows with -ECANCELED, not from inside this call. */
void link_reset(struct link_stream *st);
/* n bytes given to data() were used up: the peer may send as many again. */
void link_consume(struct link_stream *st, size_t n);
struct link *link_of(struct link_stream *st);
/* Client, from response() on: the response's content-length, -1 when it has none. */
int64_t link_content_length(const struct link_stream *st);

#endif
