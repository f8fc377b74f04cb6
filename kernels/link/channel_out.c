#include <errno.h>
#include <string.h>

#include "channel_private.h"
#include "le.h"

/* Frames and their heads that a channel may hold when its user does not heed
 * channel_full(), or when only kept frames are left. */
enum { CHANNEL_RETAIN_HARD = CHANNEL_RETAIN_MAX + CHANNEL_FRAME_MAX + sizeof(struct retained) };

static bool channel_drops(const struct channel *c)
{
	return !c->attached && c->policy == CHANNEL_DROP_MIDDLE;
}

void channel_settle_full(struct channel *c)
{
	/* Attached, the source goes on when half is free. Detached, the next
	 * frame makes its own room by dropping. */
	size_t low = channel_drops(c) ? SIZE_MAX : CHANNEL_RETAIN_MAX / 2;

	if (!c->full || c->out.bytes > low)
		return;
	c->full = false;
	if (c->ops.drained)
		c->ops.drained(c, c->arg);
}

static bool channel_has_room(const struct channel *c, bool keep, size_t len)
{
	if (channel_drops(c) && !keep)
		return true; /* it is dropped at once if it must be */
	if (!c->attached && c->policy == CHANNEL_REFUSE)
		return c->out.bytes <= CHANNEL_RETAIN_MAX;
	return c->out.bytes + sizeof(struct retained) + len <= CHANNEL_RETAIN_HARD;
}

int64_t channel_send(struct channel *c, uint8_t type, bool keep, const void *payload, size_t len)
{
	struct retained *n;

	if (type == FRAME_HELLO || type == FRAME_ACK || type == FRAME_GAP)
		return -EINVAL;
	if (len > CHANNEL_FRAME_MAX)
		return -EMSGSIZE;
	if (!channel_has_room(c, keep, len)) {
		c->full = true;
		return -EAGAIN;
	}
	n = retain_append(&c->out, c->sent + 1, type, keep, payload, len);
	if (!n)
		return -ENOMEM;
	c->sent++;
	if (c->attached && !c->next)
		c->next = n;
	/* Not while attached: then a frame may be half way to the peer. */
	if (channel_drops(c))
		retain_trim(&c->out, CHANNEL_RETAIN_MAX, c->exposed);
	if (c->out.bytes > CHANNEL_RETAIN_MAX)
		c->full = true;
	channel_enter(c);
	channel_flush(c);
	channel_leave(c);
	return (int64_t)c->sent;
}

/* Control frames go between whole frames, from a buffer of their own. */
static void control_put(struct channel *c, uint8_t type, uint64_t seq, const void *payload, size_t len)
{
	struct frame_head head;

	frame_head_put(&head, type, seq, len);
	memcpy(c->control, &head, sizeof(head));
	memcpy(c->control + sizeof(head), payload, len);
	c->control_off = 0;
	c->control_len = sizeof(head) + len;
}

static void control_put_u64(struct channel *c, uint8_t type, uint64_t value)
{
	uint8_t payload[8];

	le64_put(payload, value);
	control_put(c, type, 0, payload, sizeof(payload));
}

static void control_put_gap(struct channel *c, uint64_t last, uint64_t frames, uint64_t bytes)
{
	struct frame_gap gap;

	le64_put(gap.first, c->told + 1);
	le64_put(gap.frames, frames);
	le64_put(gap.bytes, bytes);
	control_put(c, FRAME_GAP, last, &gap, sizeof(gap));
	c->told = last;
	if (c->exposed < last)
		c->exposed = last;
}

/* Numbers the peer lacks and we no longer have. To a peer that starts anew what
 * was acknowledged before its time is no loss: a gap of no frames. */
static bool control_hole(struct channel *c)
{
	uint64_t last = c->next ? retained_first(c->next) - 1 : c->sent;
	uint64_t from = c->told ? c->told : c->acked;

	if (last <= c->told)
		return false;
	control_put_gap(c, last, last > from ? last - from : 0, 0);
	return true;
}

/* One report for all gaps that follow each other. */
static bool control_gap(struct channel *c)
{
	uint64_t last = c->told, bytes = 0;

	while (c->next && c->next->frames && retained_first(c->next) <= last + 1) {
		last = c->next->seq;
		bytes += c->next->bytes;
		c->next = c->next->next;
	}
	if (last == c->told)
		return false;
	control_put_gap(c, last, last - c->told, bytes);
	return true;
}

/* Makes the next control frame that is due. */
static bool control_make(struct channel *c)
{
	if (c->hello_due) {
		c->hello_due = false;
		control_put_u64(c, FRAME_HELLO, c->received);
		return true;
	}
	if (!c->attached)
		return false;
	if (c->safe > c->safe_sent) {
		c->safe_sent = c->safe;
		c->unsaid = 0;
		control_put_u64(c, FRAME_ACK, c->safe);
		return true;
	}
	return control_hole(c) || control_gap(c);
}

/* Returns whether all of it is out. */
static bool control_write(struct channel *c)
{
	c->control_off += link_write(c->st, c->control + c->control_off, c->control_len - c->control_off);
	return c->control_off == c->control_len;
}

static bool frame_write(struct channel *c)
{
	struct retained *n = c->next;
	struct frame_head head;

	if (c->next_off < sizeof(head)) {
		frame_head_put(&head, n->type, n->seq, n->bytes);
		c->next_off += link_write(c->st, (uint8_t *)&head + c->next_off, sizeof(head) - c->next_off);
		if (c->next_off < sizeof(head))
			return false;
	}
	c->next_off += link_write(c->st, retained_payload(n) + (c->next_off - sizeof(head)),
				  n->bytes - (c->next_off - sizeof(head)));
	if (c->next_off < sizeof(head) + n->bytes)
		return false;
	c->told = n->seq;
	if (c->exposed < n->seq)
		c->exposed = n->seq;
	c->next = n->next;
	c->next_off = 0;
	return true;
}

void channel_flush(struct channel *c)
{
	while (c->st) {
		if (c->control_off < c->control_len || (c->next_off == 0 && control_make(c))) {
			if (!control_write(c))
				return;
			continue;
		}
		if (!c->attached || !c->next || !frame_write(c))
			return;
	}
}

/* The peer has numbers we never let out: ours, from before a restart that lost
 * them. What waits here has to be numbered after them. */
static void channel_renumber(struct channel *c, uint64_t received)
{
	uint64_t from = c->exposed, by = received - from;

	retain_renumber(&c->out, from, by);
	c->sent += by;
	c->exposed = received;
}

int channel_peer_received(struct channel *c, uint64_t received)
{
	if (received > FRAME_SEQ_MAX || c->sent > FRAME_SEQ_MAX)
		return -EPROTO;
	if (received > c->exposed)
		channel_renumber(c, received);
	c->told = c->delivered = received;
	c->next = retain_after(&c->out, received);
	c->next_off = 0;
	retain_untrim(&c->out);
	return 0;
}

int channel_peer_acked(struct channel *c, uint64_t seq)
{
	if (seq > c->told)
		return -EPROTO;
	if (seq <= c->acked)
		return 0;
	c->acked = seq;
	if (c->delivered < seq)
		c->delivered = seq;
	retain_ack(&c->out, seq);
	channel_settle_full(c);
	return 0;
}

void channel_ack(struct channel *c, uint64_t seq)
{
	if (seq > c->received)
		seq = c->received;
	if (seq <= c->safe)
		return;
	c->safe = seq;
	if (c->unsaid < CHANNEL_ACK_BYTES) {
		if (c->st)
			link_write_later(c->st);
		return;
	}
	channel_enter(c);
	channel_flush(c);
	channel_leave(c);
}
