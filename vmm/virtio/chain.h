/* One request of a driver: pieces of guest RAM, checked, in the order of its
 * descriptors. First those the driver wrote for the device ("out"), then those
 * the device may write ("in"). Requests may be cut into pieces anywhere, so
 * devices read and write them by these functions, or by readv and writev.
 */
#ifndef CARREL_VMM_VIRTIO_CHAIN_H
#define CARREL_VMM_VIRTIO_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct guest_memory;

enum { VIRTIO_CHAIN_MAX = 128 /* pieces; as many as a queue's entries, so any chain fits */ };

struct virtio_chain {
	uint16_t head;
	unsigned outs, ins;                 /* pieces; in follows out */
	uint32_t out_len, in_len;           /* their bytes */
	struct iovec iov[VIRTIO_CHAIN_MAX]; /* each whole in guest RAM */
	uint64_t gpa[VIRTIO_CHAIN_MAX];     /* where each starts for the guest */
};

static inline uint32_t least(uint32_t a, size_t b)
{
	return a < b ? a : (uint32_t)b;
}

static inline struct iovec *chain_in(struct virtio_chain *c)
{
	return c->iov + c->outs;
}

/* Moves the first len bytes of the out part to ret; false, and nothing happens,
 * if there are fewer. */
bool chain_take(struct virtio_chain *c, void *ret, uint32_t len);

/* Moves the start of the out part, or of the in part, past len bytes of it. */
void chain_skip_out(struct virtio_chain *c, uint32_t len);
void chain_skip_in(struct virtio_chain *c, uint32_t len);

/* Copies to the start of the in part as much of len bytes as fits; returns how much. */
uint32_t chain_fill(const struct virtio_chain *c, const struct guest_memory *m, const void *data,
		    uint32_t len);

/* The first len bytes of the in part were written. */
void chain_mark_dirty(const struct virtio_chain *c, const struct guest_memory *m, uint32_t len);

#endif
