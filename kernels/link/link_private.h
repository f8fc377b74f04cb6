/* What the files of the link share: link.c (records in and out, the end of
 * sessions), hello.c (their beginning), session.c (nghttp2), stream.c
 * (streams). Private to them.
 *
 * Re-entrancy: every entry that can call back runs between link_enter() and
 * link_leave(). What must not happen under nghttp2's feet (dropping the session,
 * closing a stream that link_reset() gave up, writable()) is noted and done when
 * the outermost entry settles.
 */
#ifndef CARREL_LINK_PRIVATE_H
#define CARREL_LINK_PRIVATE_H

#include <nghttp2/nghttp2.h>

#include "cobs.h"
#include "limits.h"
#include "link.h"
#include "record.h"
#include "ring.h"

enum {
	/* Data records encoded at a time: one write of 64 KiB. */
	LINK_OUT_RECORDS = 4,
	/* HELLO, HELLO_ACK and RESET, each between two delimiters, before them. */
	LINK_OUT_CONTROL = 3 * 32,
	LINK_OUT_MAX = LINK_OUT_RECORDS * LINK_RECORD_MAX + LINK_OUT_CONTROL,
	LINK_BUCKETS = 64,
	/* Frames nghttp2 holds for a peer that asks and does not read; ours own are
	 * a few for each of LINK_STREAMS_MAX. */
	LINK_QUEUE_MAX = 4096,
	/* New sessions a client may ask for within LINK_HELLO_INTERVAL_MS: an honest
	 * one needs one, and each costs an nghttp2 session. */
	LINK_HELLO_BURST = 16,
	/* HELLO repeats slow down to LINK_HELLO_INTERVAL_MS << this. */
	LINK_HELLO_BACKOFF = 3,
	/* HELLOs a server remembers so as not to take an old session's bytes, should
	 * they come twice, for a new one's. */
	LINK_NONCES = 64,
	LINK_WHY_MAX = 160,
};

struct link {
	enum link_role role;
	struct link_ops ops;
	void *arg;
	uint64_t now;

	bool opened; /* client: link_hello() was called, keep trying */
	bool up;
	uint8_t nonce[LINK_NONCE];
	uint32_t tx_number, rx_number; /* of the next DATA record */

	nghttp2_session *ng;
	const uint8_t *ng_ptr; /* what nghttp2 gave us and no record holds yet */
	size_t ng_left;
	bool in_ng;

	bool hello_due, ack_due, reset_due;
	bool hello_sent, mismatch_told;
	unsigned hello_tries;
	uint64_t hello_at;
	uint8_t ack_nonce[LINK_NONCE];
	uint8_t reset_tag[LINK_TAG];
	uint8_t nonces[LINK_NONCES][LINK_NONCE]; /* server: the latest sessions' */
	unsigned nonces_at;
	uint64_t burst_at;
	unsigned burst;

	uint64_t tick_at, heard_at, ping_at;
	uint64_t later_at; /* when link_write_later() is due, 0: nothing is */
	bool pinging;

	unsigned depth;
	bool kicked; /* want_write was signalled and link_pending() not yet 0 */
	bool dropping;
	bool broken;     /* the last drop was the peer's fault */
	unsigned breaks; /* how many were */
	char why[LINK_WHY_MAX];

	struct link_stream *buckets[LINK_BUCKETS];
	unsigned streams;
	unsigned resets;   /* streams given up, closed() due */
	unsigned starving; /* streams whose writable() is due */

	struct cobs_decoder in;
	uint8_t plain[RECORD_PLAIN_MAX];
	uint8_t out[LINK_OUT_MAX];
	size_t out_off, out_len;
};

struct link_stream {
	struct link *l;
	struct link_stream *next; /* in its bucket */
	int32_t id;
	struct link_stream_ops ops;
	void *arg;

	struct ring out;
	size_t unconsumed; /* given to data(), not yet to link_consume() */

	char method[16];
	char *path;
	int status;
	int64_t content_length; /* client: of the response; -1: it has none */
	size_t header_bytes;

	bool head_done; /* request announced, or final response seen */
	bool answered;  /* server: link_respond() was called */
	bool ended;     /* link_end() was called, or no body */
	bool end_sent;
	bool deferred; /* nghttp2 waits for link_write() or link_end() */
	bool starved;  /* link_write() took less than asked */
	bool feed;     /* writable() is due */
	bool later;    /* and will be at l->later_at */
	bool eof;
	bool reset;
};

void link_enter(struct link *l);
void link_leave(struct link *l);
/* Notes a drop; the outermost link_leave() does it. The first reason stands. */
void link_fail(struct link *l, bool broken, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The session and its streams go; down() is told when there was one. */
void link_teardown(struct link *l, const char *why);

/* hello.c: which session both sides speak of.
 * A client's fresh HELLO: at once, but no two within the interval, so that a
 * peer which breaks every session does not make us spin. */
void hello_renew(struct link *l);
void hello_received(struct link *l, const struct record_hello *h);
void hello_ack_received(struct link *l, const struct record_hello *h);
/* A server has no session of this tag: its client will be told. */
void hello_reset(struct link *l, const uint8_t *tag);
/* Returns milliseconds until the next HELLO is due. */
unsigned hello_tick(struct link *l);

/* session.c. Start returns 0 or -ENOMEM. */
int session_start(struct link *l);
/* Returns at most max bytes of nghttp2's output moved to out. */
size_t session_pull(struct link *l, uint8_t *out, size_t max);
void session_feed(struct link *l, const uint8_t *bytes, size_t len);

/* stream.c */
struct link_stream *stream_new(struct link *l, int32_t id);
struct link_stream *stream_find(struct link *l, int32_t id);
/* Takes the stream out, tells its owner, frees it. */
void stream_close(struct link_stream *st, int err);
void stream_close_all(struct link *l, int err);
/* The streams whose later has come become due. */
void stream_later(struct link *l);
/* Does the closed() of reset streams and the writable() of starved ones. */
void stream_settle(struct link *l);
extern const nghttp2_data_provider stream_provider;

#endif
