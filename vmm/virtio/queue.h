/* A split virtqueue, from the device's side.
 *
 * Rings and descriptors lie in memory that a hostile driver changes at any
 * instant: each field is read once, checked, and used as read. The rings'
 * places are validated once, by virtqueue_start, and the registers that name
 * them cannot change after it. Indirect descriptors are not offered. Guest and
 * host are little-endian.
 */
#ifndef CARREL_VMM_VIRTIO_QUEUE_H
#define CARREL_VMM_VIRTIO_QUEUE_H

#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stdint.h>

#include "chain.h"

struct virtio_device;

enum { VIRTIO_QUEUE_MAX = VIRTIO_CHAIN_MAX /* entries; a power of two */ };

struct virtio_queue {
	struct virtio_device *device;
	const struct guest_memory *memory;
	unsigned index;

	/* Registers. size is what the driver wrote, all 32 bits of it. */
	uint64_t desc_gpa, avail_gpa, used_gpa;
	uint32_t size;
	bool ready;

	/* From virtqueue_start on. */
	bool started;
	bool event_index; /* VIRTIO_RING_F_EVENT_IDX */
	struct vring_desc *desc;
	struct vring_avail *avail;
	struct vring_used *used;
	uint16_t next_avail, next_used;
	uint16_t signalled; /* next_used at the last look whether to interrupt */
};

/* -EINVAL unless size is a power of two within bounds, and each ring aligned
 * and whole inside one region of RAM. */
int virtqueue_start(struct virtio_queue *q, bool event_index);

/* 1 with the next chain in *ret, 0 without one (then the driver will notify),
 * -EBADMSG if the ring or the chain is malformed. Takes nothing. */
int virtqueue_peek(struct virtio_queue *q, struct virtio_chain *ret);

/* Takes the chain of the last peek. */
void virtqueue_advance(struct virtio_queue *q);

/* Gives a chain back, of whose in part the first len bytes were written. */
void virtqueue_push(struct virtio_queue *q, uint16_t head, uint32_t len);

/* Whether the driver wants an interrupt for what was pushed since the last look. */
bool virtqueue_wants_interrupt(struct virtio_queue *q);

#endif
