/* A small virtio driver and what it drives: guest RAM between inaccessible pages,
 * an event loop that can be turned by hand, and a device's registers. Included
 * once by a test; it is the loop that the devices are linked with.
 *
 * Rings and buffers are made as an honest driver would, and everything in them
 * can be reached to do it as a hostile one.
 */
#ifndef CARREL_TESTS_VIRTIO_DRIVER_H
#define CARREL_TESTS_VIRTIO_DRIVER_H

#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "vmm/machine/loop.h"
#include "vmm/machine/memory.h"
#include "vmm/virtio/device.h"
#include "vmm/virtio/mmio.h"
#include "vmm/virtio/state.h"

enum {
	RAM_BYTES = 32 << 20,
	QUEUE_SIZE = 16,
	RINGS_BYTES = 4096,  /* one queue's three rings */
	RINGS_MAX = 1 << 20, /* below it lie the buffers, above it rings */
	SPIN_TURNS = 20000,  /* of a loop that should have come to rest */
	PATIENCE_S = 20,     /* with the host's disk */
};

struct loop {
	int epoll_fd;
	struct {
		loop_fn *fn;
		void *arg;
	} watches[256];
	unsigned calls;
};

static struct loop the_loop;
static struct guest_memory ram;
static uint64_t ram_next; /* first free byte for buffers */

int loop_watch(struct loop *l, int fd, uint32_t events, loop_fn *fn, void *arg)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	CHECK(fd >= 0 && fd < 256);
	if (epoll_ctl(l->epoll_fd, l->watches[fd].fn ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0)
		return -errno;
	l->watches[fd].fn = fn;
	l->watches[fd].arg = arg;
	return 0;
}

void loop_unwatch(struct loop *l, int fd)
{
	if (!l->watches[fd].fn)
		return;
	CHECK_INT(epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL), 0);
	l->watches[fd].fn = NULL;
}

static inline bool loop_turn(int timeout_ms)
{
	struct epoll_event event;

	if (epoll_wait(the_loop.epoll_fd, &event, 1, timeout_ms) != 1)
		return false;
	the_loop.calls++;
	the_loop.watches[event.data.fd].fn(the_loop.watches[event.data.fd].arg, event.events);
	return true;
}

/* Until nothing is ready. A loop that never comes to rest is a busy one. */
static inline void loop_settle(void)
{
	unsigned turns = 0;

	while (loop_turn(0))
		CHECK(++turns < SPIN_TURNS);
}

static inline void stage_start(uint64_t bytes)
{
	signal(SIGPIPE, SIG_DFL); /* a device must not need it ignored */
	the_loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	CHECK_INT(memory_new(&ram, bytes), 0);
	CHECK_INT(memory_track(&ram), 0);
	ram_next = MEMORY_PAGE;
}

static inline void stage_end(void)
{
	memory_free(&ram);
	close(the_loop.epoll_fd);
	the_loop = (struct loop){ 0 };
}

static inline void *at(uint64_t gpa)
{
	void *p = memory_at(&ram, gpa, 1);

	CHECK(p != NULL);
	return p;
}

static inline uint64_t buffer(uint32_t bytes)
{
	uint64_t gpa = ram_next;

	ram_next += (bytes + 63) / 64 * 64;
	CHECK(ram_next < RAM_BYTES - RINGS_MAX);
	return gpa;
}

static inline bool page_is_dirty(uint64_t gpa)
{
	uint64_t page = gpa / MEMORY_PAGE;

	return atomic_load(&ram.dirty[page / 64]) >> page % 64 & 1;
}

static inline void dirty_clear(void)
{
	memset((void *)ram.dirty, 0, RAM_BYTES / MEMORY_PAGE / 8);
}

/* One queue as its driver sees it. */
struct ring {
	uint64_t desc_gpa, avail_gpa, used_gpa;
	uint16_t size, added, seen, next_desc;
};

struct driver {
	struct virtio_device *d;
	struct ring ring[VIRTIO_QUEUES_MAX];
};

struct piece {
	uint64_t gpa;
	uint32_t len;
	bool in;
};

static inline uint32_t reg(struct driver *v, uint64_t offset)
{
	uint32_t value;

	virtio_mmio_read(v->d, offset, &value, sizeof(value));
	return value;
}

static inline void reg_set(struct driver *v, uint64_t offset, uint32_t value)
{
	virtio_mmio_write(v->d, offset, &value, sizeof(value));
}

static inline uint32_t status(struct driver *v)
{
	return reg(v, VIRTIO_MMIO_STATUS);
}

static inline bool broken(struct driver *v)
{
	return status(v) & VIRTIO_CONFIG_S_NEEDS_RESET;
}

static inline void status_add(struct driver *v, uint32_t bit)
{
	reg_set(v, VIRTIO_MMIO_STATUS, status(v) | bit);
}

static inline void features_accept(struct driver *v, uint64_t features)
{
	features |= 1ull << VIRTIO_F_VERSION_1;
	reg_set(v, VIRTIO_MMIO_STATUS, 0);
	status_add(v, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	status_add(v, VIRTIO_CONFIG_S_DRIVER);
	for (uint32_t i = 0; i < 2; i++) {
		reg_set(v, VIRTIO_MMIO_DRIVER_FEATURES_SEL, i);
		reg_set(v, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)(features >> 32 * i));
	}
	status_add(v, VIRTIO_CONFIG_S_FEATURES_OK);
	CHECK(status(v) & VIRTIO_CONFIG_S_FEATURES_OK);
}

static inline void address_set(struct driver *v, uint64_t low, uint64_t gpa)
{
	reg_set(v, low, (uint32_t)gpa);
	reg_set(v, low + 4, (uint32_t)(gpa >> 32));
}

static inline void ring_registers(struct driver *v, unsigned i)
{
	struct ring *r = &v->ring[i];

	reg_set(v, VIRTIO_MMIO_QUEUE_SEL, i);
	reg_set(v, VIRTIO_MMIO_QUEUE_NUM, r->size);
	address_set(v, VIRTIO_MMIO_QUEUE_DESC_LOW, r->desc_gpa);
	address_set(v, VIRTIO_MMIO_QUEUE_AVAIL_LOW, r->avail_gpa);
	address_set(v, VIRTIO_MMIO_QUEUE_USED_LOW, r->used_gpa);
	reg_set(v, VIRTIO_MMIO_QUEUE_READY, 1);
}

/* The used ring of the first queue ends where RAM does. */
static inline void ring_place(struct driver *v, unsigned i, uint16_t size)
{
	uint64_t end = RAM_BYTES - i * 2 * RINGS_BYTES;
	uint32_t used = 4 + 8u * size + 2;

	v->ring[i] = (struct ring){ .size = size };
	v->ring[i].used_gpa = (end - used) / 4 * 4;
	v->ring[i].avail_gpa = end - RINGS_BYTES;
	v->ring[i].desc_gpa = end - 2 * RINGS_BYTES;
	memset(at(end - 2 * RINGS_BYTES), 0, 2 * RINGS_BYTES);
}

static inline void driver_start_sized(struct driver *v, uint64_t features, uint16_t size)
{
	features_accept(v, features);
	for (unsigned i = 0; i < v->d->queues; i++) {
		ring_place(v, i, size);
		ring_registers(v, i);
	}
	status_add(v, VIRTIO_CONFIG_S_DRIVER_OK);
	loop_settle();
}

static inline void driver_start(struct driver *v, struct virtio_device *d, uint64_t features)
{
	*v = (struct driver){ .d = d };
	driver_start_sized(v, features, QUEUE_SIZE);
	CHECK(virtio_device_live(d));
}

static inline struct vring_desc *desc(struct driver *v, unsigned queue, unsigned i)
{
	return (struct vring_desc *)at(v->ring[queue].desc_gpa) + i;
}

static inline struct vring_avail *avail(struct driver *v, unsigned queue)
{
	return at(v->ring[queue].avail_gpa);
}

static inline struct vring_used *used(struct driver *v, unsigned queue)
{
	return at(v->ring[queue].used_gpa);
}

static inline void head_add(struct driver *v, unsigned queue, uint16_t head)
{
	struct ring *r = &v->ring[queue];

	avail(v, queue)->ring[r->added % r->size] = head;
	__atomic_store_n(&avail(v, queue)->idx, ++r->added, __ATOMIC_RELEASE);
}

/* Descriptors are taken round and round: no test has more in flight. */
static inline uint16_t chain_make(struct driver *v, unsigned queue, const struct piece *pieces, unsigned n)
{
	struct ring *r = &v->ring[queue];
	uint16_t head = r->next_desc;

	for (unsigned i = 0; i < n; i++) {
		struct vring_desc *at_i = desc(v, queue, r->next_desc);

		r->next_desc = (uint16_t)((r->next_desc + 1) % r->size);
		*at_i = (struct vring_desc){ .addr = pieces[i].gpa,
					     .len = pieces[i].len,
					     .flags = (uint16_t)((pieces[i].in ? VRING_DESC_F_WRITE : 0) |
								 (i + 1 < n ? VRING_DESC_F_NEXT : 0)),
					     .next = r->next_desc };
	}
	return head;
}

static inline uint16_t chain_add(struct driver *v, unsigned queue, const struct piece *pieces, unsigned n)
{
	uint16_t head = chain_make(v, queue, pieces, n);

	head_add(v, queue, head);
	return head;
}

static inline void kick(struct driver *v, unsigned queue)
{
	reg_set(v, VIRTIO_MMIO_QUEUE_NOTIFY, queue);
}

/* The next chain that came back. */
static inline bool used_next(struct driver *v, unsigned queue, struct vring_used_elem *ret)
{
	struct ring *r = &v->ring[queue];

	if (__atomic_load_n(&used(v, queue)->idx, __ATOMIC_ACQUIRE) == r->seen)
		return false;
	*ret = used(v, queue)->ring[r->seen++ % r->size];
	return true;
}

/* Turns the loop until it is back. */
static inline struct vring_used_elem used_wait(struct driver *v, unsigned queue)
{
	struct vring_used_elem e = { 0 };
	time_t end = time(NULL) + PATIENCE_S;

	while (!used_next(v, queue, &e)) {
		CHECK(time(NULL) < end && !broken(v));
		loop_turn(1000);
	}
	return e;
}

/* Makes a request, has it served, returns the bytes written. */
static inline uint32_t request(struct driver *v, unsigned queue, const struct piece *pieces, unsigned n)
{
	uint16_t head = chain_add(v, queue, pieces, n);
	struct vring_used_elem e;

	kick(v, queue);
	e = used_wait(v, queue);
	CHECK_INT(e.id, head);
	return e.len;
}

/* The interrupt came, once or more. */
static inline bool interrupted(struct driver *v)
{
	eventfd_t count;

	return eventfd_read(v->d->irq_fd, &count) == 0;
}

static inline bool config_interrupt(struct driver *v)
{
	return interrupted(v) && reg(v, VIRTIO_MMIO_INTERRUPT_STATUS) & VIRTIO_MMIO_INT_CONFIG;
}

#endif
