/* An io_uring that can do nothing but read, write and sync one file.
 *
 * Used by one thread at a time. The kernel refuses every other operation and
 * file, from the moment the ring is made. Completions make event_fd readable.
 */
#ifndef CARREL_VMM_VIRTIO_BLK_RING_H
#define CARREL_VMM_VIRTIO_BLK_RING_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	BLK_RING_ENTRIES = 128, /* operations in flight */
	/* Threads of the kernel's, for what cannot be done without waiting, for
	 * all rings of the process; unasked, it takes up to four a CPU. */
	BLK_RING_WORKERS = 4,
};

struct blk_ring {
	struct io_uring ring;
	int event_fd;
	bool made;
	unsigned prepared, in_flight;
};

int blk_ring_make(struct blk_ring *r, int fd);
/* Nothing is in flight. One that was not made is fine. */
void blk_ring_free(struct blk_ring *r);

/* At most BLK_RING_ENTRIES prepared and in flight together. iov stays as it is
 * until the completion, which has tag. */
void blk_ring_read(struct blk_ring *r, const struct iovec *iov, unsigned n, uint64_t offset, void *tag);
void blk_ring_write(struct blk_ring *r, const struct iovec *iov, unsigned n, uint64_t offset, void *tag);
void blk_ring_sync(struct blk_ring *r, void *tag);

/* Starts what is prepared. On a negative errno the ring is of no more use, but
 * what is in flight ends as ever. */
int blk_ring_submit(struct blk_ring *r);

/* The next completion: false if there is none now. */
bool blk_ring_reap(struct blk_ring *r, void **ret_tag, int *ret_result);
/* Until there is one. */
int blk_ring_wait(const struct blk_ring *r);

#endif
