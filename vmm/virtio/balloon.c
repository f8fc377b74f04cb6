#include "balloon.h"

#include <assert.h>
#include <errno.h>
#include <linux/virtio_balloon.h>
#include <linux/virtio_ids.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"
#include "vmm/machine/memory.h"

/* Without a queue of statistics the driver counts the one of reports as third. */
enum { QUEUE_INFLATE, QUEUE_DEFLATE, QUEUE_REPORT, QUEUES };

enum {
	PFNS_MAX = 1024, /* in one request; Linux sends 256 */
	/* Requests in one turn of the loop: each may name all of RAM. */
	BUDGET = 4,
};

struct balloon {
	struct virtio_device device;
	uint32_t target, actual; /* pages */
	bool complained;
};

static struct balloon *balloon_of(struct virtio_device *d)
{
	return (struct balloon *)d;
}

/* Whole pages within [gpa, gpa+len), which is RAM. One that cannot be given up
 * (too many mappings) stays the guest's: the host is as well off as before. */
static void discard(struct balloon *b, uint64_t gpa, uint64_t len)
{
	uint64_t first = (gpa + MEMORY_PAGE - 1) / MEMORY_PAGE * MEMORY_PAGE;
	uint64_t end = (gpa + len) / MEMORY_PAGE * MEMORY_PAGE;
	void *host = first < end ? memory_at(b->device.memory, first, end - first) : NULL;

	if (!host)
		return;
	if (mmap(host, end - first, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
		if (!b->complained)
			fprintf(stderr, "carrel-vmm: balloon: pages cannot be given up: %s\n",
				strerror(errno));
		b->complained = true;
		return;
	}
	madvise(host, end - first, MADV_DONTDUMP);
	memory_mark_dirty(b->device.memory, first, end - first);
}

static void discard_run(struct balloon *b, uint64_t low, uint64_t high)
{
	discard(b, low * MEMORY_PAGE, (high - low + 1) * MEMORY_PAGE);
}

/* Runs of neighbours at once, in either direction; a run of pages that are RAM
 * each does not cross the hole. */
static bool discard_pages(struct balloon *b, const uint32_t *pfns, unsigned n)
{
	uint64_t low = 0, high = 0;

	for (unsigned i = 0; i < n; i++) {
		uint64_t at = pfns[i];

		if (!memory_at(b->device.memory, at * MEMORY_PAGE, MEMORY_PAGE))
			return false;
		if (i > 0 && at == high + 1) {
			high = at;
		} else if (i > 0 && at + 1 == low) {
			low = at;
		} else {
			if (i > 0)
				discard_run(b, low, high);
			low = high = at;
		}
	}
	if (n > 0)
		discard_run(b, low, high);
	return true;
}

/* Deflation tells nothing that is not so already: a page given up is there again
 * at its first use. Its request is checked as well. */
static bool serve_pages(struct balloon *b, struct virtio_queue *q, struct virtio_chain *c)
{
	uint32_t pfns[PFNS_MAX], len = c->out_len;

	if (c->ins > 0 || len > sizeof(pfns) || len % sizeof(*pfns) || !chain_take(c, pfns, len) ||
	    (q->index == QUEUE_INFLATE && !discard_pages(b, pfns, len / sizeof(*pfns)))) {
		virtio_device_break(&b->device, "the driver gives pages that it does not have");
		return false;
	}
	virtqueue_push(q, c->head, 0);
	return true;
}

static bool serve_report(struct balloon *b, struct virtio_queue *q, const struct virtio_chain *c)
{
	if (c->outs > 0) {
		virtio_device_break(&b->device, "a report of free pages has bytes of its own");
		return false;
	}
	for (unsigned i = 0; i < c->ins; i++)
		discard(b, c->gpa[i], c->iov[i].iov_len);
	virtqueue_push(q, c->head, 0);
	return true;
}

static bool serve_one(struct virtio_queue *q)
{
	struct balloon *b = balloon_of(q->device);
	struct virtio_chain c;

	return virtio_pop(q, &c) &&
	       (q->index == QUEUE_REPORT ? serve_report(b, q, &c) : serve_pages(b, q, &c));
}

static void balloon_kick(struct virtio_device *d, unsigned queue)
{
	virtio_serve(&d->queue[queue], BUDGET, serve_one);
}

static void config_read(struct virtio_device *d, uint32_t offset, void *ret, uint32_t len)
{
	struct virtio_balloon_config config = { .num_pages = balloon_of(d)->target,
						.actual = balloon_of(d)->actual };

	memcpy(ret, (uint8_t *)&config + offset, len);
}

static void config_write(struct virtio_device *d, uint32_t offset, const void *data, uint32_t len)
{
	struct balloon *b = balloon_of(d);

	if (offset == offsetof(struct virtio_balloon_config, actual) && len == sizeof(b->actual))
		memcpy(&b->actual, data, sizeof(b->actual));
}

static void balloon_reset(struct virtio_device *d)
{
	balloon_of(d)->actual = 0;
}

struct balloon_state {
	uint32_t target, actual;
};
static_assert(sizeof(struct balloon_state) == 8, "saved in files");

static unsigned balloon_save(const struct virtio_device *d, void *ret)
{
	const struct balloon *b = (const struct balloon *)d;
	struct balloon_state s = { b->target, b->actual };

	memcpy(ret, &s, sizeof(s));
	return sizeof(s);
}

/* Both are numbers to tell, nothing is counted by them: any will do. */
static int balloon_load(struct virtio_device *d, const void *data, unsigned size)
{
	struct balloon_state s;

	if (size != sizeof(s))
		return -EINVAL;
	memcpy(&s, data, sizeof(s));
	balloon_of(d)->target = s.target;
	balloon_of(d)->actual = s.actual;
	return 0;
}

static const struct virtio_ops balloon_ops = {
	.name = "balloon",
	.id = VIRTIO_ID_BALLOON,
	.queues = QUEUES,
	.features = 1ull << VIRTIO_BALLOON_F_DEFLATE_ON_OOM | 1ull << VIRTIO_BALLOON_F_REPORTING,
	/* The target and what was given; what follows belongs to features not offered. */
	.config_size = offsetof(struct virtio_balloon_config, actual) + sizeof(uint32_t),
	.config_read = config_read,
	.config_write = config_write,
	.kick = balloon_kick,
	.reset = balloon_reset,
	.save = balloon_save,
	.load = balloon_load,
};

int balloon_new(const struct guest_memory *m, struct loop *l, struct virtio_device **ret)
{
	struct balloon *b = calloc(1, sizeof(*b));
	int err = b ? virtio_device_init(&b->device, &balloon_ops, m, l) : -ENOMEM;

	if (err) {
		free(b);
		return err;
	}
	*ret = &b->device;
	return 0;
}

void balloon_set_target(struct virtio_device *d, uint32_t pages)
{
	balloon_of(d)->target = pages;
	virtio_device_config_changed(d);
}

uint32_t balloon_actual(const struct virtio_device *d)
{
	return ((const struct balloon *)d)->actual;
}
