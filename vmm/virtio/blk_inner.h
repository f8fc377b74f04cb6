/* What blk.c and blk_serve.c share of a disk. */
#ifndef CARREL_VMM_VIRTIO_BLK_INNER_H
#define CARREL_VMM_VIRTIO_BLK_INNER_H

#include <assert.h>
#include <linux/virtio_blk.h>
#include <stddef.h>

#include "blk_ring.h"
#include "device.h"

enum {
	BLK_SECTOR = 512,
	/* Bytes and pieces of data in a request; what is in the host's page cache
	 * is copied in the loop's turn. A header and a status byte come with it. */
	BLK_SEGMENT_MAX = 64 * 1024,
	BLK_SEGMENTS_MAX = VIRTIO_CHAIN_MAX - 2,
	/* Discards are done in the loop's turn; both together bound one request. */
	BLK_DISCARD_SEGMENTS = 8,
	BLK_DISCARD_SECTORS = 64 * 1024 * 1024 / BLK_SECTOR,
	/* No VIRTIO_BLK_S_: the answer comes with a completion. */
	BLK_LATER = 0x100,
};

struct blk_request {
	struct virtio_blk_outhdr header;
	uint64_t offset;     /* of what is left, in the file */
	uint32_t pushed_len; /* data and status */
	uint8_t *status;
	uint64_t status_gpa;
	struct virtio_chain chain; /* data alone, and of it what is left */
};

struct blk {
	struct virtio_device device;
	int fd;
	unsigned flags;
	uint64_t capacity; /* sectors */
	char id[VIRTIO_BLK_ID_BYTES];
	struct blk_ring ring;
	bool ring_failed; /* and stays so: what was prepared is stuck in it */
	bool stalled;     /* chains wait for a request to come free */
	struct blk_request *requests;
	unsigned free_count;
	uint8_t free_list[VIRTIO_QUEUE_MAX]; /* a stack: few requests are ever touched */
};
static_assert(offsetof(struct blk, device) == 0, "a device is a blk");

/* Takes header and status byte off the chain; false if they are not there. */
bool blk_parse(struct blk_request *r);

/* Does what the header asks, or prepares it in the ring; the status or BLK_LATER. */
int blk_serve(struct blk *b, struct blk_request *r);

/* Prepares what is left of a read or write. */
void blk_transfer(struct blk *b, struct blk_request *r);

#endif
