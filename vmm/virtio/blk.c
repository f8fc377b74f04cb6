#include "blk.h"

#include <errno.h>
#include <linux/virtio_ids.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blk_inner.h"
#include "vmm/machine/loop.h"
#include "vmm/machine/memory.h"

enum { DISCARD_ALIGNMENT = 4096 / BLK_SECTOR /* the host's blocks: less frees nothing */ };
static_assert((int)BLK_RING_ENTRIES >= (int)VIRTIO_QUEUE_MAX, "a request is at most one operation in flight");

static struct blk *blk_of(struct virtio_device *d)
{
	return (struct blk *)d;
}

static struct virtio_queue *queue_of(struct blk *b)
{
	return &b->device.queue[0];
}

static void request_release(struct blk *b, const struct blk_request *r)
{
	b->free_list[b->free_count++] = (uint8_t)(r - b->requests);
}

static void request_finish(struct blk *b, struct blk_request *r, uint8_t status)
{
	if (virtio_device_live(&b->device)) {
		*(volatile uint8_t *)r->status = status;
		memory_mark_dirty(b->device.memory, r->status_gpa, 1);
		virtqueue_push(queue_of(b), r->chain.head, r->pushed_len);
	}
	request_release(b, r);
}

/* False: no chain, no request free, or the device broke. */
static bool serve_one(struct virtio_queue *q)
{
	struct blk *b = blk_of(q->device);
	struct blk_request *r;
	int status;

	b->stalled = b->free_count == 0;
	if (b->stalled)
		return false;
	r = &b->requests[b->free_list[b->free_count - 1]];
	if (!virtio_pop(q, &r->chain))
		return false;
	b->free_count--;
	if (!blk_parse(r)) {
		virtio_device_break(&b->device, "a request without header or status");
		request_release(b, r);
		return false;
	}
	status = blk_serve(b, r);
	if (status != BLK_LATER)
		request_finish(b, r, (uint8_t)status);
	return true;
}

/* The host's fault, not the driver's. */
static void disk_lost(struct blk *b, const char *what, int err)
{
	char reason[96];

	snprintf(reason, sizeof(reason), "%s: %s", what, strerror(-err));
	virtio_device_break(&b->device, reason);
}

static void submit(struct blk *b)
{
	int err = blk_ring_submit(&b->ring);

	if (err) {
		b->ring_failed = true;
		disk_lost(b, "io_uring takes no requests", err);
	}
}

/* What the kernel did of a request; the rest of a short transfer follows. */
static void request_continue(struct blk *b, struct blk_request *r, int result, bool ending)
{
	bool in = r->header.type == VIRTIO_BLK_T_IN;
	uint32_t left = in ? r->chain.in_len : r->chain.out_len;

	/* All of it: a read that failed may have written some. */
	if (in)
		chain_mark_dirty(&r->chain, b->device.memory, left);
	if (result < 0) {
		request_finish(b, r, VIRTIO_BLK_S_IOERR);
		return;
	}
	if (in)
		chain_skip_in(&r->chain, (uint32_t)result);
	else
		chain_skip_out(&r->chain, (uint32_t)result);
	r->offset += (uint32_t)result;
	if (r->header.type == VIRTIO_BLK_T_FLUSH || (uint32_t)result >= left)
		request_finish(b, r, VIRTIO_BLK_S_OK);
	else if (result == 0 || ending || b->ring_failed)
		request_finish(b, r, VIRTIO_BLK_S_IOERR);
	else
		blk_transfer(b, r);
}

/* ending: nothing new is started. */
static void completions_take(struct blk *b, bool ending)
{
	eventfd_t count;
	void *tag;
	int result;

	/* Before the look at the ring: what completes after it is told anew. Who waited at the
	 * ring itself leaves it to the loop, which may find nothing. */
	if (!ending)
		eventfd_read(b->ring.event_fd, &count);
	while (blk_ring_reap(&b->ring, &tag, &result))
		request_continue(b, tag, result, ending);
	if (!b->ring_failed && !ending)
		submit(b);
	virtio_notify(queue_of(b));
	if (b->stalled)
		virtio_kick_later(queue_of(b));
}

static void completed(void *arg, uint32_t events)
{
	(void)events;
	completions_take(arg, false);
}

static void blk_kick(struct virtio_device *d, unsigned queue)
{
	struct blk *b = blk_of(d);

	if (b->ring_failed) {
		disk_lost(b, "no io_uring", -EIO);
		return;
	}
	virtio_serve(&d->queue[queue], VIRTIO_BUDGET, serve_one);
	submit(b);
}

/* On a vCPU's thread: what ends short is not taken up again. */
static void blk_reset(struct virtio_device *d)
{
	struct blk *b = blk_of(d);

	while (b->ring.in_flight > 0 && blk_ring_wait(&b->ring) == 0)
		completions_take(b, true);
	b->stalled = false;
}

static int blk_drain(struct virtio_device *d)
{
	struct blk *b = blk_of(d);
	int err = 0;

	while (b->ring.in_flight > 0 && !err) {
		err = blk_ring_wait(&b->ring);
		if (!err)
			completions_take(b, false);
	}
	return err;
}

static void config_read(struct virtio_device *d, uint32_t offset, void *ret, uint32_t len)
{
	struct blk *b = blk_of(d);
	struct virtio_blk_config config = { .capacity = b->capacity,
					    .size_max = BLK_SEGMENT_MAX,
					    .seg_max = BLK_SEGMENTS_MAX };

	if (!(b->flags & BLK_READ_ONLY)) {
		config.max_discard_sectors = BLK_DISCARD_SECTORS;
		config.max_discard_seg = BLK_DISCARD_SEGMENTS;
		config.discard_sector_alignment = DISCARD_ALIGNMENT;
	}
	memcpy(ret, (uint8_t *)&config + offset, len);
}

/* A snapshot belongs to its disks. */
struct blk_state {
	uint64_t capacity, flags;
};
static_assert(sizeof(struct blk_state) == 16, "saved in files");

static struct blk_state state_of(const struct blk *b)
{
	return (struct blk_state){ b->capacity, b->flags };
}

static unsigned blk_save(const struct virtio_device *d, void *ret)
{
	struct blk_state s = state_of((const struct blk *)d);

	memcpy(ret, &s, sizeof(s));
	return sizeof(s);
}

static int blk_load(struct virtio_device *d, const void *data, unsigned size)
{
	struct blk_state s = state_of(blk_of(d));

	return size == sizeof(s) && memcmp(data, &s, sizeof(s)) == 0 ? 0 : -EINVAL;
}

static void blk_end(struct virtio_device *d)
{
	struct blk *b = blk_of(d);

	if (b->ring.made)
		loop_unwatch(b->device.loop, b->ring.event_fd);
	blk_ring_free(&b->ring);
	close(b->fd);
	free(b->requests);
}

static const struct virtio_ops blk_ops = {
	.name = "blk",
	.id = VIRTIO_ID_BLOCK,
	.queues = 1,
	.features = 1ull << VIRTIO_BLK_F_SIZE_MAX | 1ull << VIRTIO_BLK_F_SEG_MAX,
	/* What follows belongs to features not offered. */
	.config_size = offsetof(struct virtio_blk_config, max_write_zeroes_sectors),
	.config_read = config_read,
	.kick = blk_kick,
	.reset = blk_reset,
	.drain = blk_drain,
	.save = blk_save,
	.load = blk_load,
	.end = blk_end,
};

static int file_size(int fd, uint64_t *ret)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*ret = (uint64_t)st.st_size;
	return 0;
}

static int blk_init(struct blk *b, const struct guest_memory *m, struct loop *l, const char *id)
{
	uint64_t size = 0;
	int err = file_size(b->fd, &size);

	if (err)
		return err;
	b->capacity = size / BLK_SECTOR;
	memcpy(b->id, id, strnlen(id, sizeof(b->id)));
	b->requests = calloc(VIRTIO_QUEUE_MAX, sizeof(*b->requests));
	if (!b->requests)
		return -ENOMEM;
	while (b->free_count < VIRTIO_QUEUE_MAX) {
		b->free_list[b->free_count] = (uint8_t)b->free_count;
		b->free_count++;
	}
	err = virtio_device_init(&b->device, &blk_ops, m, l);
	if (!err)
		err = blk_ring_make(&b->ring, b->fd);
	return err ? err : loop_watch(l, b->ring.event_fd, EPOLLIN, completed, b);
}

int blk_new(const struct guest_memory *m, struct loop *l, int fd, unsigned flags, const char *id,
	    struct virtio_device **ret)
{
	struct blk *b = calloc(1, sizeof(*b));
	int err;

	if (!b) {
		close(fd);
		return -ENOMEM;
	}
	b->fd = fd;
	b->flags = flags;
	err = blk_init(b, m, l, id);
	if (err) {
		blk_end(&b->device);
		free(b);
		return err;
	}
	b->device.features |= flags & BLK_READ_ONLY ? 1ull << VIRTIO_BLK_F_RO : 1ull << VIRTIO_BLK_F_DISCARD;
	if (flags & BLK_DURABLE)
		b->device.features |= 1ull << VIRTIO_BLK_F_FLUSH;
	*ret = &b->device;
	return 0;
}
