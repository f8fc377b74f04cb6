/* What the files of a channel share: channel.c (its life and its streams),
 * channel_out.c (what goes to the peer), channel_in.c (what comes from it).
 */
#ifndef CARREL_LINK_CHANNEL_PRIVATE_H
#define CARREL_LINK_CHANNEL_PRIVATE_H

#include "channel.h"
#include "frame.h"
#include "retain.h"

/* A control frame: the largest is a gap. */
enum { CHANNEL_CONTROL_MAX = sizeof(struct frame_head) + sizeof(struct frame_gap) };

struct channel {
	enum channel_policy policy;
	struct channel_ops ops;
	void *arg;
	unsigned depth; /* of callbacks: channel_free() waits for them */
	bool freed;

	struct link_stream *st;
	uint64_t generation; /* counts streams: a callback may have changed it */
	int status;          /* client: of a refusal */
	bool attached;       /* both 'H' frames were exchanged */
	bool full;

	/* Outwards. */
	struct retain out;
	uint64_t sent;         /* highest number given */
	uint64_t exposed;      /* highest number that may have reached the peer */
	uint64_t acked;        /* the peer has all up to it safe */
	uint64_t delivered;    /* the peer has received all up to it */
	uint64_t told;         /* on this stream: highest number the peer has or was sent */
	struct retained *next; /* to be written next, next_off bytes of it are */
	size_t next_off;
	uint8_t control[CHANNEL_CONTROL_MAX];
	size_t control_off, control_len;
	bool hello_due;

	/* Inwards. */
	uint64_t received;
	uint64_t safe;      /* what the user acknowledged */
	uint64_t safe_sent; /* and the peer was told on this stream */
	size_t unsaid;      /* bytes received since it was told */
	bool paused, parsing;
	struct frame_reader in;
	uint8_t *held; /* arrived while paused; at most a stream window */
	size_t held_len, held_cap;
};

void channel_enter(struct channel *c);
void channel_leave(struct channel *c);
/* The stream is of no more use: forgets it (resets it when reset is set), keeps
 * within bounds, tells the user. */
void channel_detach(struct channel *c, int err, bool reset);

/* Writes as much as the stream takes. */
void channel_flush(struct channel *c);
/* The peer told what it received. 0 or -EPROTO. No callbacks. */
int channel_peer_received(struct channel *c, uint64_t received);
int channel_peer_acked(struct channel *c, uint64_t seq);
/* After room was made: full may turn false, which drained() is told. */
void channel_settle_full(struct channel *c);

/* Stream bytes. */
void channel_input(struct channel *c, const uint8_t *bytes, size_t len);
/* After channel_pause(c, false). */
void channel_input_resume(struct channel *c);
void channel_input_reset(struct channel *c);

#endif
