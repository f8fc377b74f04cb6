/* A reliable, ordered, bounded channel of frames that outlives the streams
 * that carry it: sequence numbers, acknowledgement, replay.
 *
 * Both ends are the same. A channel is attached to one HTTP/2 stream at a time
 * (the client opens POST …/channel, the server answers 200); after the link was
 * lost it is attached to another and goes on where the peer left off.
 *
 * Frame, little-endian:  u32 length of what follows | u8 type | u64 seq | payload
 *   type 'H'  first frame of each side after attach, seq 0,
 *             payload u64 received: the highest seq received so far
 *   type 'A'  acknowledgement, seq 0, payload u64: all up to here is safe
 *   type 'G'  gap, seq = last dropped seq; payload u64 first dropped seq, u64
 *             frames, u64 bytes: what the sender had to drop. It stands in the
 *             place of what it reports: one per run of dropped frames, which is
 *             one in all unless kept frames stand between. frames 0: a peer that
 *             starts anew is moved on over what others acknowledged; no loss
 *   other     the user's; seq counts 1, 2, 3, … per direction
 * After both 'H' frames each side replays what the other has not received.
 * Frames seen before are dropped by seq, so the user sees each once, in order.
 * What was received and not acknowledged is replayed to a peer that lost it
 * (channel_restore); what was acknowledged and lost is reported as a gap.
 *
 * A peer whose 'H' has received more than we ever let out knows numbers from
 * before a restart that lost them: sent becomes its value, and frames that wait
 * here unsent move up behind it, which renumbered() tells.
 *
 * -EPROTO for: another first frame than 'H', a second 'H', a seq out of order,
 * 'A' for what was not sent, an impossible length.
 *
 * The sender retains frames until 'A'. Past CHANNEL_RETAIN_MAX:
 *   attached: channel_send() still takes the frame but channel_full() turns
 *             true: stop reading the source until drained();
 *   detached: with CHANNEL_DROP_MIDDLE the oldest half is kept, then the middle
 *             is dropped, the newest half is kept, and the peer gets one 'G';
 *             frames sent as keep are never dropped. With CHANNEL_REFUSE
 *             channel_send() returns -EAGAIN.
 */
#ifndef CARREL_CHANNEL_H
#define CARREL_CHANNEL_H

#include "limits.h"
#include "link.h"

struct channel;

enum channel_policy { CHANNEL_DROP_MIDDLE, CHANNEL_REFUSE };

struct channel_ops {
	/* A frame, in order, once. Acknowledge it by channel_ack() when it is safe.
	 * payload lives until the callback returns. */
	void (*frame)(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		      void *arg);
	/* Frames first..last will never come. Acknowledge last like a frame. */
	void (*gap)(struct channel *c, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
		    void *arg);
	/* channel_full() turned false again. */
	void (*drained)(struct channel *c, void *arg);
	/* Both 'H' frames were exchanged. */
	void (*attached)(struct channel *c, void *arg);
	/* Waiting frames numbered from..sent got by added to their seq, before attached(). */
	void (*renumbered)(struct channel *c, uint64_t from, uint64_t by, void *arg);
	/* The stream is gone. err as in link_stream_ops.closed; -EPROTO when the
	 * peer broke the framing; status of the HTTP answer when it was not 200
	 * (err is -ECONNREFUSED then), else 0. Not called for a stream that
	 * channel_connect(), channel_accept() or channel_free() gave up. */
	void (*detached)(struct channel *c, int err, int status, void *arg);
};

struct channel *channel_new(enum channel_policy policy, const struct channel_ops *ops, void *arg);
/* Resets the stream it is attached to. Accepts NULL. Callbacks may call it. */
void channel_free(struct channel *c);
/* A restarted carreld knows from its store what it has: set before the first
 * attach. received: highest seq that is safe here. sent: highest seq we ever
 * numbered (our frames go on from sent + 1). In attached(), channel_delivered()
 * tells which of those the peer has; it is told of the others as a gap. */
void channel_restore(struct channel *c, uint64_t received, uint64_t sent);

/* Client: open the stream on l. Server: take over st (answers 200 itself).
 * An older stream of the same channel is reset first. Returns 0 or as
 * link_open() and link_respond() do; the channel is detached then. */
int channel_connect(struct channel *c, struct link *l, const char *path);
int channel_accept(struct channel *c, struct link_stream *st);

/* Queue a frame. keep: never dropped by CHANNEL_DROP_MIDDLE (status, ends).
 * Returns its seq (> 0), -EMSGSIZE (over CHANNEL_FRAME_MAX), -EINVAL (type H, A
 * or G), -ENOMEM, or -EAGAIN: refused by policy, or the user did not heed
 * channel_full() for another CHANNEL_FRAME_MAX; drained() follows. */
int64_t channel_send(struct channel *c, uint8_t type, bool keep, const void *payload, size_t len);
/* Everything received up to seq is safe. */
void channel_ack(struct channel *c, uint64_t seq);
/* Stop handing out frames (flow control reaches the peer), and go on. */
void channel_pause(struct channel *c, bool paused);

bool channel_full(const struct channel *c);
bool channel_is_attached(const struct channel *c);
/* Highest seq received, sent, and acknowledged by the peer. */
uint64_t channel_received(const struct channel *c);
uint64_t channel_sent(const struct channel *c);
uint64_t channel_acked(const struct channel *c);
/* Highest seq the peer is known to have received (or to know the loss of). */
uint64_t channel_delivered(const struct channel *c);

#endif
