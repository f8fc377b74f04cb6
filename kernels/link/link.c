#include "link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "link_private.h"

static const uint8_t *link_tag(const struct link *l)
{
	return l->nonce + LINK_NONCE - LINK_TAG;
}

static bool link_has_output(const struct link *l)
{
	if (l->out_off < l->out_len || l->hello_due || l->ack_due || l->reset_due || l->resets)
		return true;
	return l->ng && (l->ng_left || nghttp2_session_want_write(l->ng));
}

static uint64_t hello_interval(const struct link *l)
{
	unsigned shift = l->hello_tries < LINK_HELLO_BACKOFF ? l->hello_tries : LINK_HELLO_BACKOFF;

	return (uint64_t)LINK_HELLO_INTERVAL_MS << shift;
}

/* A fresh HELLO: at once, but no two within the interval, so that a peer which
 * breaks every session does not make us spin. */
static void hello_renew(struct link *l)
{
	while (getrandom(l->nonce, sizeof(l->nonce), 0) != sizeof(l->nonce))
		;
	l->mismatch_told = false;
	l->hello_tries = 0;
	l->hello_due = !l->hello_sent || l->now - l->hello_at >= hello_interval(l);
}

/* The session and all that belongs to it goes. The owner is told last, when the
 * link is already fit for the next session. */
static void link_teardown(struct link *l, const char *why)
{
	nghttp2_session *ng = l->ng;
	bool was_up = l->up;

	l->up = false;
	l->ng = NULL;
	l->ng_left = 0;
	l->out_off = l->out_len = 0;
	l->ack_due = false;
	l->pinging = false;
	nghttp2_session_del(ng);
	stream_close_all(l, -ECONNRESET);
	if (l->role == LINK_CLIENT && l->opened)
		hello_renew(l);
	if (was_up && l->ops.down)
		l->ops.down(l, why, l->arg);
}

static void reset_tag(struct link *l, const uint8_t *tag)
{
	if (l->reset_due)
		return;
	memcpy(l->reset_tag, tag, LINK_TAG);
	l->reset_due = true;
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
			reset_tag(l, link_tag(l));
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
	l->broken |= broken;
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

/* The pair matches: a fresh session, and the owner is told. */
static void link_start(struct link *l)
{
	int err = session_start(l);

	if (err)
		return; /* no memory now; the client's next HELLO tries again */
	l->up = true;
	l->hello_due = false;
	l->tx_number = l->rx_number = 0;
	l->heard_at = l->ping_at = l->now;
	l->pinging = false;
	if (l->ops.up)
		l->ops.up(l, l->arg);
}

static bool nonce_is_spent(const struct link *l, const uint8_t *nonce)
{
	for (unsigned i = 0; i < LINK_NONCES; i++)
		if (memcmp(l->nonces[i], nonce, LINK_NONCE) == 0)
			return true;
	return false;
}

static void nonce_spend(struct link *l, const uint8_t *nonce)
{
	memcpy(l->nonces[l->nonces_at++ % LINK_NONCES], nonce, LINK_NONCE);
	memcpy(l->nonce, nonce, LINK_NONCE);
}

/* True when the HELLO's session is up now. */
static bool hello_accept(struct link *l, const uint8_t *nonce)
{
	if (l->up && memcmp(nonce, l->nonce, LINK_NONCE) == 0)
		return true;
	if (nonce_is_spent(l, nonce)) {
		reset_tag(l, nonce + LINK_NONCE - LINK_TAG);
		return false;
	}
	if (l->now - l->burst_at >= LINK_HELLO_INTERVAL_MS) {
		l->burst_at = l->now;
		l->burst = 0;
	}
	if (l->burst++ >= LINK_HELLO_BURST)
		return false;
	if (l->ng)
		link_teardown(l, "the other side opened a new session");
	/* A drop asked for meanwhile meant the session that is gone. */
	l->dropping = false;
	l->reset_due = false;
	nonce_spend(l, nonce);
	link_start(l);
	return l->up;
}

static void hello_received(struct link *l, const struct record_hello *h)
{
	/* Another version is answered with ours and nothing more. */
	if (h->version == LINK_VERSION && !hello_accept(l, h->nonce))
		return;
	memcpy(l->ack_nonce, h->nonce, LINK_NONCE);
	l->ack_due = true;
}

static void ack_received(struct link *l, const struct record_hello *h)
{
	if (memcmp(h->nonce, l->nonce, LINK_NONCE) != 0) {
		/* Before ours is answered it is a stale one. After, the server has
		 * taken up another HELLO and forgotten this session. */
		if (l->up)
			link_fail(l, false, "the other side answered an older HELLO");
		return;
	}
	if (l->up || !l->opened || !l->hello_sent)
		return;
	if (h->version != LINK_VERSION) {
		char why[LINK_WHY_MAX];

		if (l->mismatch_told || !l->ops.down)
			return;
		l->mismatch_told = true;
		snprintf(why, sizeof(why),
			 "the other side speaks version %u of the link, this side %u: rebuild the image",
			 h->version, LINK_VERSION);
		l->ops.down(l, why, l->arg);
		return;
	}
	link_start(l);
}

static void data_received(struct link *l, const struct record_data *data)
{
	if (!l->up || memcmp(data->tag, link_tag(l), LINK_TAG) != 0) {
		/* A client that believes in a session we do not have must learn it. */
		if (l->role == LINK_SERVER)
			reset_tag(l, data->tag);
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
		ack_received(l, h);
	else if (r && l->role == LINK_CLIENT && l->opened && memcmp(r->tag, link_tag(l), LINK_TAG) == 0)
		link_fail(l, false, "the other side dropped the session");
	else if (record_data_parse(record, len, &data))
		data_received(l, &data);
}

int link_receive(struct link *l, const uint8_t *bytes, size_t len)
{
	bool broken;

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
	broken = l->broken;
	l->broken = false;
	link_leave(l);
	return broken ? -EPROTO : 0;
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
	len = record_data_seal(l->plain, len, link_tag(l), l->tx_number++);
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

/* Returns milliseconds until the next HELLO is due. */
static unsigned tick_hello(struct link *l)
{
	uint64_t interval = hello_interval(l);
	uint64_t age = l->now - l->hello_at;

	if (l->hello_due)
		return (unsigned)interval;
	if (l->hello_sent && age < interval)
		return (unsigned)(interval - age);
	/* One that the transport has not taken yet need not be repeated. */
	if (l->out_off == l->out_len)
		l->hello_due = true;
	return (unsigned)interval;
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

unsigned link_tick(struct link *l, uint64_t now_ms)
{
	unsigned due = LINK_PING_INTERVAL_MS;

	link_enter(l);
	l->now = now_ms;
	if (l->ng)
		due = tick_ping(l);
	else if (l->role == LINK_CLIENT && l->opened)
		due = tick_hello(l);
	l->tick_at = now_ms;
	link_leave(l);
	/* The drop just done has a HELLO of its own to send. */
	if (!l->ng && l->role == LINK_CLIENT && l->opened && due > LINK_HELLO_INTERVAL_MS)
		due = LINK_HELLO_INTERVAL_MS;
	return due;
}
