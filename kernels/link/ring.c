#include "ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	RING_FIRST = 4096,
	/* An empty ring keeps this much, so that a busy one does not allocate each time round. */
	RING_KEEP = 64 * 1024,
};

/* Copies the n bytes at position at (counted from the oldest) out of the ring. */
static void ring_copy_out(const struct ring *r, size_t at, uint8_t *out, size_t n)
{
	size_t from = (r->off + at) & (r->cap - 1);
	size_t first = n < r->cap - from ? n : r->cap - from;

	memcpy(out, r->buf + from, first);
	memcpy(out + first, r->buf, n - first);
}

static int ring_grow(struct ring *r, size_t want)
{
	size_t cap = r->cap ? r->cap : RING_FIRST;
	uint8_t *buf;

	while (cap < want)
		cap *= 2;
	if (cap == r->cap)
		return 0;
	buf = malloc(cap);
	if (!buf)
		return -ENOMEM;
	if (r->len)
		ring_copy_out(r, 0, buf, r->len);
	free(r->buf);
	r->buf = buf;
	r->cap = cap;
	r->off = 0;
	return 0;
}

ptrdiff_t ring_put(struct ring *r, const void *bytes, size_t n, size_t max)
{
	size_t to, first;
	int err;

	if (n > max - r->len)
		n = max - r->len;
	if (n == 0)
		return 0;
	err = ring_grow(r, r->len + n);
	if (err)
		return err;
	to = (r->off + r->len) & (r->cap - 1);
	first = n < r->cap - to ? n : r->cap - to;
	memcpy(r->buf + to, bytes, first);
	memcpy(r->buf, (const uint8_t *)bytes + first, n - first);
	r->len += n;
	return (ptrdiff_t)n;
}

size_t ring_get(struct ring *r, uint8_t *out, size_t n)
{
	if (n > r->len)
		n = r->len;
	if (n == 0)
		return 0;
	ring_copy_out(r, 0, out, n);
	r->off = (r->off + n) & (r->cap - 1);
	r->len -= n;
	if (r->len == 0 && r->cap > RING_KEEP)
		ring_free(r);
	return n;
}

void ring_free(struct ring *r)
{
	free(r->buf);
	*r = (struct ring){ 0 };
}
