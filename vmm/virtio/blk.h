/* virtio-blk on a file: io_uring for reads and writes, fallocate for discards.
 *
 * The ring is made at the first request and can do nothing but read, write and
 * sync this one file; requests are completed on the loop, any number at a time.
 * Only regular files; what the host refuses (no space above all) is an I/O error
 * in the guest, never an end. Host memory: bounded by VIRTIO_QUEUE_MAX requests.
 */
#ifndef CARREL_VMM_VIRTIO_BLK_H
#define CARREL_VMM_VIRTIO_BLK_H

#include <stdint.h>

struct guest_memory;
struct loop;
struct virtio_device;

enum blk_flags {
	BLK_READ_ONLY = 1,
	/* The driver's flushes are fsyncs. Without it none are offered: a disk
	 * that ends with its machine has no use for them. */
	BLK_DURABLE = 2,
};

/* fd becomes the device's, also on failure, and is closed with it. id is what
 * the guest sees as the serial number, at most 20 bytes of it. -EINVAL: not a
 * regular file. */
int blk_new(const struct guest_memory *m, struct loop *l, int fd, unsigned flags, const char *id,
	    struct virtio_device **ret);

#endif
