#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "link_private.h"

static uint64_t hello_interval(const struct link *l)
{
	unsigned shift = l->hello_tries < LINK_HELLO_BACKOFF ? l->hello_tries : LINK_HELLO_BACKOFF;

	return (uint64_t)LINK_HELLO_INTERVAL_MS << shift;
}

void hello_renew(struct link *l)
{
	ssize_t n;

	do
		n = getrandom(l->nonce, sizeof(l->nonce), 0);
	while (n < 0 && errno == EINTR);
	/* Two sessions of one nonce would take each other's bytes. */
	if (n != sizeof(l->nonce))
		abort();
	l->mismatch_told = false;
	l->hello_tries = 0;
	l->hello_due = !l->hello_sent || l->now - l->hello_at >= hello_interval(l);
}

void hello_reset(struct link *l, const uint8_t *tag)
{
	if (l->reset_due)
		return;
	memcpy(l->reset_tag, tag, LINK_TAG);
	l->reset_due = true;
}

/* The pair matches: a fresh session, and the owner is told. */
static void hello_start(struct link *l)
{
	int err = session_start(l);

	if (err)
		return; /* no memory now; the client's next HELLO tries again */
	l->up = true;
	l->broken = false;
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
		hello_reset(l, record_tag(nonce));
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
	hello_start(l);
	return l->up;
}

void hello_received(struct link *l, const struct record_hello *h)
{
	/* Another version is answered with ours and nothing more. */
	if (h->version == LINK_VERSION && !hello_accept(l, h->nonce))
		return;
	memcpy(l->ack_nonce, h->nonce, LINK_NONCE);
	l->ack_due = true;
}

void hello_ack_received(struct link *l, const struct record_hello *h)
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
	hello_start(l);
}

/* Returns milliseconds until the next HELLO is due. */
unsigned hello_tick(struct link *l)
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
