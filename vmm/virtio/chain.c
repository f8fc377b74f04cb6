#include "chain.h"

#include <string.h>

#include "vmm/machine/memory.h"

/* Pieces that are used up stay, with no length: readv and writev pass over them. */
static void skip(struct virtio_chain *c, unsigned first, unsigned pieces, uint32_t len)
{
	for (unsigned i = first; i < first + pieces && len > 0; i++) {
		uint32_t n = least(len, c->iov[i].iov_len);

		c->iov[i].iov_base = (uint8_t *)c->iov[i].iov_base + n;
		c->iov[i].iov_len -= n;
		c->gpa[i] += n;
		len -= n;
	}
}

void chain_skip_out(struct virtio_chain *c, uint32_t len)
{
	len = least(len, c->out_len);
	skip(c, 0, c->outs, len);
	c->out_len -= len;
}

void chain_skip_in(struct virtio_chain *c, uint32_t len)
{
	len = least(len, c->in_len);
	skip(c, c->outs, c->ins, len);
	c->in_len -= len;
}

bool chain_take(struct virtio_chain *c, void *ret, uint32_t len)
{
	uint8_t *to = ret;
	uint32_t left = len;

	if (len > c->out_len)
		return false;
	for (unsigned i = 0; i < c->outs && left > 0; i++) {
		uint32_t n = least(left, c->iov[i].iov_len);

		memcpy(to, c->iov[i].iov_base, n);
		to += n;
		left -= n;
	}
	chain_skip_out(c, len);
	return true;
}

uint32_t chain_fill(const struct virtio_chain *c, const struct guest_memory *m, const void *data,
		    uint32_t len)
{
	const uint8_t *from = data;
	uint32_t left = len = least(len, c->in_len);

	for (unsigned i = c->outs; i < c->outs + c->ins && left > 0; i++) {
		uint32_t n = least(left, c->iov[i].iov_len);

		memcpy(c->iov[i].iov_base, from, n);
		from += n;
		left -= n;
	}
	chain_mark_dirty(c, m, len);
	return len;
}

void chain_mark_dirty(const struct virtio_chain *c, const struct guest_memory *m, uint32_t len)
{
	for (unsigned i = c->outs; i < c->outs + c->ins && len > 0; i++) {
		uint32_t n = least(len, c->iov[i].iov_len);

		memory_mark_dirty(m, c->gpa[i], n);
		len -= n;
	}
}
