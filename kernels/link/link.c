#include "link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link_private.h"

static bool link_has_output(const struct link *l)
{
	if (l->out_off < l->out_len || l->hello_due || l->ack_due || l->reset_due || l->resets)
		return true;
	return l->ng && (l->ng_left || nghttp2_session_want_write(l->ng));
}

/* The session and all that belongs to it goes. The owner is told last, when the
 * link is already fit for the next session. */
void link_teardown(struct link *l, const char *why)
{
	nghttp2_session *ng = l->ng;
	bool was_up = l->up;

	l->up = false;
	l->ng = NULL;
	l->ng_left = 0;
	l->out_off = l->out_len = 0;
	l->ack_due = false;
	l->pinging = false;
	l->later_at = 0;
	nghttp2_session_del(ng);
	stream_close_all(l, -ECONNRESET);
	if (l->role == LINK_CLIENT && l->opened)
		hello_renew(l);
	if (was_up && l->ops.down)
		l->ops.down(l, why, l->arg);
}

void link_enter(struct link *l)
{
	l->depth++;
}

static void link_settle(struct link *l)
{
	char why[LINK_WHY_MAX];

	while (l->dropping) {
		memcpy(why, l->why, sizeof(why));
		l->dropping = false;
		if (l->up && l->role == LINK_SERVER)
			hello_reset(l, record_tag(l->nonce));
		link_teardown(l, why);
	}
}

void link_leave(struct link *l)
{
	if (l->depth > 1) {
		l->depth--;
		return;
	}
	link_settle(l);
	l->depth--;
	if (!l->kicked && link_has_output(l)) {
		l->kicked = true;
		if (l->ops.want_write)
			l->ops.want_write(l, l->arg);
	}
}

void link_fail(struct link *l, bool broken, const char *fmt, ...)
{
	va_list ap;

	if (l->dropping)
		return;
	l->dropping = true;
	l->broken = broken;
	l->breaks += broken;
	va_start(ap, fmt);
	vsnprintf(l->why, sizeof(l->why), fmt, ap);
	va_end(ap);
}

struct link *link_new(enum link_role role, const struct link_ops *ops, void *arg)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->role = role;
	l->ops = *ops;
	l->arg = arg;
	return l;
}

void link_free(struct link *l)
{
	if (!l)
		return;
	l->ops = (struct link_ops){ 0 };
	l->opened = false;
	link_enter(l);
	link_teardown(l, "");
	free(l);
}

void link_hello(struct link *l)
{
	if (l->role != LINK_CLIENT)
		return;
	l->opened = true;
	link_drop(l, "a new session was asked for");
}

void link_drop(struct link *l, const char *why)
{
	link_enter(l);
	link_fail(l, false, "%s", why);
	link_leave(l);
}

bool link_is_up(const struct link *l)
{
	return l->up && !l->dropping;
}

bool link_was_broken(const struct link *l)
{
	return l->broken;
}

static void data_received(struct link *l, const struct record_data *data)
{
	if (!l->up || memcmp(data->tag, record_tag(l->nonce), LINK_TAG) != 0) {
		/* A client that believes in a session we do not have must learn it. */
		if (l->role == LINK_SERVER)
			hello_reset(l, data->tag);
		return;
	}
	if (data->number < l->rx_number)
		return; /* seen before */
	if (data->number > l->rx_number) {
		link_fail(l, false, "%u records were lost on the way", data->number - l->rx_number);
		return;
	}
	l->rx_number++;
	l->heard_at = l->now;
	session_feed(l, data->bytes, data->len);
}

static void record_received(struct link *l, const uint8_t *record, size_t len)
{
	const struct record_hello *h = record_hello_parse(record, len);
	const struct record_reset *r = record_reset_parse(record, len);
	struct record_data data;

	if (h && h->kind == RECORD_HELLO && l->role == LINK_SERVER)
		hello_received(l, h);
	else if (h && h->kind == RECORD_ACK && l->role == LINK_CLIENT)
		hello_ack_received(l, h);
	else if (r && l->role == LINK_CLIENT && l->opened &&
		 memcmp(r->tag, record_tag(l->nonce), LINK_TAG) == 0)
		link_fail(l, false, "the other side dropped the session");
	else if (record_data_parse(record, len, &data))
		data_received(l, &data);
}

int link_receive(struct link *l, const uint8_t *bytes, size_t len)
{
	unsigned breaks = l->breaks;

	if (l->in_ng)
		return -EBUSY;
	link_enter(l);
	while (len > 0) {
		const uint8_t *record;
		size_t record_len;
		size_t n = cobs_decode(&l->in, bytes, len, &record, &record_len);

		bytes += n;
		len -= n;
		if (record_len == 0)
			continue;
		record_received(l, record, record_len);
		link_settle(l);
	}
	stream_settle(l);
	link_leave(l);
	return l->breaks != breaks ? -EPROTO : 0;
}

/* Between delimiters: whatever was torn before it does not swallow it. */
static void fill_control(struct link *l, const void *record, size_t len)
{
	l->out[l->out_len++] = 0;
	l->out_len += cobs_encode(record, len, l->out + l->out_len);
}

static void fill_hello(struct link *l, enum record_kind kind, const uint8_t *nonce)
{
	struct record_hello h = { .kind = (uint8_t)kind, .version = LINK_VERSION };

	memcpy(h.nonce, nonce, LINK_NONCE);
	fill_control(l, &h, sizeof(h));
}

static bool fill_data(struct link *l)
{
	size_t head = sizeof(struct record_data_head);
	size_t len = session_pull(l, l->plain + head, RECORD_DATA_MAX);

	if (len == 0 || l->dropping)
		return false;
	len = record_data_seal(l->plain, len, record_tag(l->nonce), l->tx_number++);
	l->out_len += cobs_encode(l->plain, len, l->out + l->out_len);
	return true;
}

static void link_fill(struct link *l)
{
	l->out_off = l->out_len = 0;
	if (l->reset_due) {
		struct record_reset r = { .kind = RECORD_RESET };

		memcpy(r.tag, l->reset_tag, LINK_TAG);
		fill_control(l, &r, sizeof(r));
		l->reset_due = false;
	}
	if (l->ack_due) {
		fill_hello(l, RECORD_ACK, l->ack_nonce);
		l->ack_due = false;
	}
	if (l->hello_due) {
		fill_hello(l, RECORD_HELLO, l->nonce);
		l->hello_due = false;
		l->hello_sent = true;
		l->hello_at = l->now;
		l->hello_tries++;
	}
	for (int i = 0; l->ng && i < LINK_OUT_RECORDS && fill_data(l); i++)
		;
}

size_t link_pending(struct link *l, const uint8_t **ret)
{
	if (l->in_ng)
		return 0;
	l->kicked = true;
	/* More than one round only when callbacks or a drop made new output of none. */
	for (int round = 0; round < 4 && l->out_off == l->out_len && link_has_output(l); round++) {
		link_enter(l);
		link_fill(l);
		stream_settle(l);
		link_leave(l);
	}
	*ret = l->out + l->out_off;
	if (l->out_off == l->out_len)
		l->kicked = false;
	return l->out_len - l->out_off;
}

void link_sent(struct link *l, size_t n)
{
	size_t left = l->out_len - l->out_off;

	l->out_off += n < left ? n : left;
}

static unsigned tick_ping(struct link *l)
{
	uint64_t since;

	/* We did not run (stopped, frozen, suspended): the answer may be waiting. */
	if (l->now - l->tick_at > LINK_PING_TIMEOUT_MS / 2)
		l->heard_at = l->now;
	since = l->heard_at > l->ping_at ? l->heard_at : l->ping_at;
	if (l->pinging && l->now - since >= LINK_PING_TIMEOUT_MS) {
		link_fail(l, false, "the other side gave no sign of life for %d s",
			  LINK_PING_TIMEOUT_MS / 1000);
		return LINK_HELLO_INTERVAL_MS;
	}
	if (!l->pinging && l->now - l->ping_at >= LINK_PING_INTERVAL_MS) {
		if (nghttp2_submit_ping(l->ng, NGHTTP2_FLAG_NONE, NULL) == 0)
			l->pinging = true;
		l->ping_at = l->now;
	}
	return l->pinging ? LINK_PING_INTERVAL_MS : (unsigned)(LINK_PING_INTERVAL_MS - (l->now - l->ping_at));
}

/* Returns milliseconds until what need not hurry is due. */
static unsigned tick_later(struct link *l)
{
	if (!l->later_at)
		return LINK_PING_INTERVAL_MS;
	if (l->now < l->later_at)
		return (unsigned)(l->later_at - l->now);
	l->later_at = 0;
	stream_later(l);
	stream_settle(l);
	return l->later_at ? LINK_LATER_MS : LINK_PING_INTERVAL_MS;
}

unsigned link_tick(struct link *l, uint64_t now_ms)
{
	unsigned due = LINK_PING_INTERVAL_MS, later;

	link_enter(l);
	l->now = now_ms;
	later = tick_later(l);
	if (l->ng)
		due = tick_ping(l);
	else if (l->role == LINK_CLIENT && l->opened)
		due = hello_tick(l);
	l->tick_at = now_ms;
	link_leave(l);
	/* The drop just done has a HELLO of its own to send. */
	if (!l->ng && l->role == LINK_CLIENT && l->opened && due > LINK_HELLO_INTERVAL_MS)
		due = LINK_HELLO_INTERVAL_MS;
	return later < due ? later : due;
}
