/* A bounded byte queue that grows as it fills and lets its memory go when it
 * runs empty. Zero-initialise.
 */
#ifndef CARREL_LINK_RING_H
#define CARREL_LINK_RING_H

#include <stddef.h>
#include <stdint.h>

struct ring {
	uint8_t *buf;
	size_t cap, off, len;
};

/* Takes as many of the n bytes as keep the ring within max (a power of two).
 * Returns how many, or -ENOMEM when it took none for want of memory. */
ptrdiff_t ring_put(struct ring *r, const void *bytes, size_t n, size_t max);
/* Moves at most n bytes out. Returns how many. */
size_t ring_get(struct ring *r, uint8_t *out, size_t n);
void ring_free(struct ring *r);

#endif
