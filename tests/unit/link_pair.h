/* Two links joined by an in-memory wire, for the link's unit tests. */
#ifndef CARREL_TESTS_LINK_PAIR_H
#define CARREL_TESTS_LINK_PAIR_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "link/limits.h"
#include "link/link.h"
#include "tests/unit/check.h"

struct end {
	struct link *l;
	unsigned ups, downs;
	char why[256];
	/* The server's. */
	void (*request)(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg);
	void *arg;
};

struct pair {
	struct end client, server;
	uint64_t now;
};

static inline void end_up(struct link *l, void *arg)
{
	struct end *e = arg;

	(void)l;
	e->ups++;
}

static inline void end_down(struct link *l, const char *why, void *arg)
{
	struct end *e = arg;

	(void)l;
	e->downs++;
	snprintf(e->why, sizeof(e->why), "%s", why);
}

static inline void end_request(struct link *l, struct link_stream *st, const struct link_request *rq,
			       void *arg)
{
	struct end *e = arg;

	e->request(l, st, rq, e->arg);
}

static const struct link_ops end_ops = { .up = end_up, .down = end_down, .request = end_request };

/* Moves up to max bytes; returns how many. */
static inline size_t pair_move(struct link *from, struct link *to, size_t max)
{
	const uint8_t *bytes;
	size_t n = link_pending(from, &bytes);
	uint8_t copy[64 * 1024];

	if (n > max)
		n = max;
	if (n > sizeof(copy))
		n = sizeof(copy);
	if (n == 0)
		return 0;
	memcpy(copy, bytes, n);
	link_sent(from, n);
	link_receive(to, copy, n);
	return n;
}

/* Until nothing moves any more. */
static inline void pair_run(struct pair *p)
{
	while (pair_move(p->client.l, p->server.l, SIZE_MAX) + pair_move(p->server.l, p->client.l, SIZE_MAX))
		;
}

static inline void pair_tick(struct pair *p, unsigned ms)
{
	p->now += ms;
	link_tick(p->client.l, p->now);
	link_tick(p->server.l, p->now);
}

/* Acknowledgements included, which wait for others to go with. */
static inline void pair_settle(struct pair *p)
{
	pair_run(p);
	pair_tick(p, LINK_LATER_MS);
	pair_run(p);
}

static inline void pair_init(struct pair *p)
{
	p->client.l = link_new(LINK_CLIENT, &end_ops, &p->client);
	p->server.l = link_new(LINK_SERVER, &end_ops, &p->server);
	CHECK(p->client.l && p->server.l);
	pair_tick(p, 1000);
}

static inline void pair_open(struct pair *p)
{
	pair_init(p);
	link_hello(p->client.l);
	pair_run(p);
	CHECK(link_is_up(p->client.l) && link_is_up(p->server.l));
}

static inline void pair_free(struct pair *p)
{
	link_free(p->client.l);
	link_free(p->server.l);
}

#endif
