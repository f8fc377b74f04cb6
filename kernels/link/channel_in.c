#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "channel_private.h"
#include "le.h"

static int hello_received(struct channel *c, const struct frame *f)
{
	uint64_t generation = c->generation, sent = c->sent, exposed = c->exposed;
	int err;

	if (c->attached || f->seq != 0 || f->len != 8)
		return -EPROTO;
	err = channel_peer_received(c, le64_get(f->payload));
	if (err)
		return err;
	c->attached = true;
	if (sent > exposed && c->sent > sent && c->ops.renumbered)
		c->ops.renumbered(c, exposed + 1, c->sent - sent, c->arg);
	if (c->attached && c->generation == generation && c->ops.attached)
		c->ops.attached(c, c->arg);
	if (!c->attached || c->generation != generation)
		return 0;
	channel_settle_full(c);
	channel_flush(c);
	return 0;
}

static int ack_received(struct channel *c, const struct frame *f)
{
	if (f->seq != 0 || f->len != 8)
		return -EPROTO;
	return channel_peer_acked(c, le64_get(f->payload));
}

static int gap_received(struct channel *c, const struct frame *f)
{
	const struct frame_gap *gap = (const void *)f->payload;
	uint64_t first, frames, bytes, last = f->seq;

	if (f->len != sizeof(*gap) || last > FRAME_SEQ_MAX)
		return -EPROTO;
	first = le64_get(gap->first);
	frames = le64_get(gap->frames);
	bytes = le64_get(gap->bytes);
	if (first != c->received + 1 || last < first || frames > last - first + 1)
		return -EPROTO;
	c->received = last;
	/* No frames: they are from before this side's time, nothing was lost. */
	if (frames && c->ops.gap)
		c->ops.gap(c, first, last, frames, bytes, c->arg);
	return 0;
}

static int user_frame_received(struct channel *c, const struct frame *f)
{
	if (f->seq <= c->received)
		return f->seq ? 0 : -EPROTO;
	if (f->seq != c->received + 1 || f->seq > FRAME_SEQ_MAX)
		return -EPROTO;
	c->received = f->seq;
	c->unsaid += f->len;
	if (c->ops.frame)
		c->ops.frame(c, f->type, f->seq, f->payload, f->len, c->arg);
	return 0;
}

static int frame_received(struct channel *c, const struct frame *f)
{
	if (f->type == FRAME_HELLO)
		return hello_received(c, f);
	if (!c->attached)
		return -EPROTO;
	if (f->type == FRAME_ACK)
		return ack_received(c, f);
	if (f->type == FRAME_GAP)
		return gap_received(c, f);
	return user_frame_received(c, f);
}

/* The reader's buffer is ours during the callback: a stream that ends or is
 * replaced in it must not free the payload. */
static int frame_deliver(struct channel *c, const struct frame *f)
{
	uint8_t *buf = c->in.buf;
	size_t cap = c->in.cap;
	int err;

	c->in.buf = NULL;
	c->in.cap = 0;
	err = frame_received(c, f);
	c->in.buf = buf;
	c->in.cap = cap;
	return err;
}

/* Returns how many bytes were parsed, fewer than len when paused or when a
 * callback replaced the stream, or a negative errno. */
static ptrdiff_t channel_parse(struct channel *c, const uint8_t *bytes, size_t len)
{
	uint64_t generation = c->generation;
	size_t used = 0;

	while (used < len && !c->paused) {
		struct frame f;
		int whole, err = 0;
		ptrdiff_t n = frame_read(&c->in, bytes + used, len - used, &whole, &f);

		if (n < 0)
			return n;
		used += (size_t)n;
		if (whole)
			err = frame_deliver(c, &f);
		if (!c->st || c->generation != generation)
			break;
		if (err)
			return err;
	}
	return (ptrdiff_t)used;
}

static int channel_hold(struct channel *c, const uint8_t *bytes, size_t len)
{
	if (len > c->held_cap - c->held_len) {
		size_t cap = c->held_cap ? c->held_cap : 4096;
		uint8_t *held;

		while (cap < c->held_len + len)
			cap *= 2;
		held = realloc(c->held, cap);
		if (!held)
			return -ENOMEM;
		c->held = held;
		c->held_cap = cap;
	}
	memcpy(c->held + c->held_len, bytes, len);
	c->held_len += len;
	return 0;
}

void channel_input(struct channel *c, const uint8_t *bytes, size_t len)
{
	uint64_t generation = c->generation;
	ptrdiff_t n = 0;
	int err = 0;

	channel_enter(c);
	if (!c->paused && c->held_len == 0) {
		c->parsing = true;
		n = channel_parse(c, bytes, len);
		c->parsing = false;
	}
	if (!c->st || c->generation != generation)
		goto out;
	if (n >= 0) {
		link_consume(c->st, (size_t)n);
		if ((size_t)n < len)
			err = channel_hold(c, bytes + n, len - (size_t)n);
	}
	if (n < 0 || err)
		channel_detach(c, n < 0 ? (int)n : err, true);
	else if (!c->paused && c->held_len)
		channel_input_resume(c);
out:
	channel_leave(c);
}

/* A loop, because a callback may pause and go on within one parse. */
void channel_input_resume(struct channel *c)
{
	if (c->parsing)
		return;
	channel_enter(c);
	while (c->st && !c->paused && c->held_len) {
		uint64_t generation = c->generation;
		uint8_t *held = c->held;
		size_t len = c->held_len;
		ptrdiff_t n;

		/* The bytes are ours while callbacks run, whatever becomes of the stream. */
		c->held = NULL;
		c->held_len = c->held_cap = 0;
		c->parsing = true;
		n = channel_parse(c, held, len);
		c->parsing = false;
		if (c->st && c->generation == generation) {
			int err = n < 0 ? (int)n : 0;

			if (n > 0)
				link_consume(c->st, (size_t)n);
			if (n >= 0 && (size_t)n < len)
				err = channel_hold(c, held + n, len - (size_t)n);
			if (err)
				channel_detach(c, err, true);
		}
		free(held);
	}
	channel_leave(c);
}

void channel_input_reset(struct channel *c)
{
	frame_reader_reset(&c->in);
	free(c->held);
	c->held = NULL;
	c->held_len = c->held_cap = 0;
}
