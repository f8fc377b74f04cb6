/* Questions for a client whose stdin socket is not connected yet.
 *
 * A client may send a request by its shell socket before its stdin socket has
 * found us, and ZeroMQ drops what is for nobody. So they wait here, in order,
 * until their client is there, until the request that asked has its reply, or
 * HELD_MS. Knows one socket, a ROUTER with ZMQ_ROUTER_MANDATORY.
 */
#ifndef CARREL_HELD_H
#define CARREL_HELD_H

#include <stdint.h>

#include "core/wire.h"

enum {
	/* A cell asks one question at a time, and few cells run at once: subshells. */
	HELD_MAX = 32,
	/* A client that connects no stdin socket at all is not waited for without end. */
	HELD_MS = 10 * 60 * 1000,
};

struct held_message;

/* All zero: none. */
struct held {
	struct held_message *first;
	unsigned count;
};

/* Copies the message; parent: the header of the request that asks, as in the message. Of more than
 * HELD_MAX the oldest goes. -ENOMEM. */
int held_add(struct held *h, const struct wire_packed *message, struct slice parent, uint64_t now_ms);
/* Sends those whose client is there. */
void held_send(struct held *h, void *sock, uint64_t now_ms);
/* The request has its reply: what it asked is nobody's question any more. */
void held_drop(struct held *h, struct slice parent);
void held_free(struct held *h);

#endif
