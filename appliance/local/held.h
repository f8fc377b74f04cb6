/* Messages that a ZeroMQ socket does not take now: whole, in order, copied. */
#ifndef CARREL_HELD_H
#define CARREL_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"

struct held_message;

struct held {
	struct held_message *first, **last; /* last NULL: empty since the start */
	size_t bytes;
};

/* A copy behind the others; at: whatever time the caller counts in. False: out of memory. */
bool held_add(struct held *h, const struct slice *frame, size_t n, uint64_t at);
/* The frames of the first, valid until held_drop(); NULL: there is none. */
const struct slice *held_first(const struct held *h, size_t *ret_n, uint64_t *ret_at);
void held_drop(struct held *h);
void held_free(struct held *h);

#endif
