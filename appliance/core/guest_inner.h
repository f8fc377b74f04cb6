/* What guest.c (the link) and guest_call.c (requests) share. */
#ifndef CARREL_GUEST_INNER_H
#define CARREL_GUEST_INNER_H

#include "guest.h"
#include "link/link_uv.h"

struct guest {
	struct hub *hub;
	struct guest_ops ops;
	void *arg;
	char path[512];
	struct link *link;
	struct link_uv *uv;
	struct hub_timer *health, *retry;
	int64_t connect_since, down_since, up_since; /* monotonic ms; down_since 0: up */
	unsigned breaks, again_ms;
	bool held, paused, broken, freeing;
};

#endif
