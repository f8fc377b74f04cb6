/* UNIT: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* Rings and chains of hostile drivers: each breaks the device and nothing else.
 * The devices are the simplest with a readable and with a writable part. */
#include <pthread.h>
#include <sched.h>

#include "virtio_driver.h"
#include "vmm/virtio/balloon.h"
#include "vmm/virtio/rng.h"

static struct driver v;

static void begin(int (*make)(const struct guest_memory *, struct loop *, struct virtio_device **),
		  uint64_t features)
{
	struct virtio_device *d;

	stage_start(RAM_BYTES);
	CHECK_INT(make(&ram, &the_loop, &d), 0);
	driver_start(&v, d, features);
}

static void end(void)
{
	virtio_device_free(v.d);
	stage_end();
}

/* A request that does not come back: the device is broken and says so. */
static void refused(void)
{
	interrupted(&v);
	kick(&v, 0);
	loop_settle();
	CHECK(broken(&v));
	CHECK(config_interrupt(&v));
	CHECK_INT(used(&v, 0)->idx, 0);
	end();
}

static void chains_wrap_around_the_indices(void)
{
	uint64_t gpa;

	begin(rng_new, 0);
	gpa = buffer(8);
	for (unsigned i = 0; i < 3 * 65536 / 5; i++)
		CHECK_INT(request(&v, 0, &(struct piece){ gpa, 5, true }, 1), 5);
	end();
}

/* FC 1.2.0, vm-virtio #196. */
static void avail_index_beyond_the_queue(void)
{
	begin(rng_new, 0);
	avail(&v, 0)->idx = QUEUE_SIZE + 1;
	refused();
	begin(rng_new, 0);
	avail(&v, 0)->idx = UINT16_MAX;
	refused();
}

/* vmd's unmasked table[cmd_desc_idx]. */
static void head_beyond_the_queue(void)
{
	static const uint16_t heads[] = { QUEUE_SIZE, 128, 0x8000, UINT16_MAX };

	for (unsigned i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		begin(rng_new, 0);
		head_add(&v, 0, heads[i]);
		refused();
	}
}

static void next_beyond_the_queue(void)
{
	struct piece two[2];

	begin(rng_new, 0);
	two[0] = two[1] = (struct piece){ buffer(16), 16, true };
	chain_add(&v, 0, two, 2);
	desc(&v, 0, 0)->next = QUEUE_SIZE;
	refused();
	begin(rng_new, 0);
	chain_add(&v, 0, two, 2);
	desc(&v, 0, 0)->next = UINT16_MAX;
	refused();
}

/* QEMU's "Looped descriptor". */
static void chain_loops(void)
{
	struct piece two[2];

	begin(rng_new, 0);
	two[0] = two[1] = (struct piece){ buffer(16), 16, true };
	chain_add(&v, 0, two, 2);
	desc(&v, 0, 1)->flags |= VRING_DESC_F_NEXT;
	desc(&v, 0, 1)->next = 0;
	refused();
	begin(rng_new, 0);
	chain_add(&v, 0, two, 2);
	desc(&v, 0, 0)->next = 0;
	refused();
}

/* mvm #1877: as many pieces as there are entries, at the largest queue, fit. */
static void chain_as_long_as_the_queue(void)
{
	struct piece all[VIRTIO_QUEUE_MAX];

	begin(rng_new, 0);
	driver_start_sized(&v, 0, VIRTIO_QUEUE_MAX);
	for (unsigned i = 0; i < VIRTIO_QUEUE_MAX; i++)
		all[i] = (struct piece){ buffer(3), 3, true };
	CHECK_INT(request(&v, 0, all, VIRTIO_QUEUE_MAX), 3 * VIRTIO_QUEUE_MAX);
	end();
}

static void indirect_is_refused(void)
{
	begin(rng_new, 0);
	chain_add(&v, 0, &(struct piece){ buffer(16), 16, true }, 1);
	desc(&v, 0, 0)->flags |= VRING_DESC_F_INDIRECT;
	refused();
}

/* CVE-2019-18960's class: each piece whole in RAM. */
static void piece_outside_ram(void)
{
	static const struct piece pieces[] = {
		{ RAM_BYTES, 1, true },  { RAM_BYTES - 1, 2, true },   { 0, RAM_BYTES + 1, true },
		{ 0, UINT32_MAX, true }, { UINT64_MAX, 1, true },      { UINT64_MAX - 15, 32, true },
		{ 0xd0000000, 4, true }, { MEMORY_HOLE_END, 4, true },
	};

	for (unsigned i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
		begin(rng_new, 0);
		chain_add(&v, 0, &pieces[i], 1);
		refused();
	}
	begin(rng_new, 0);
	CHECK_INT(request(&v, 0, &(struct piece){ 0x1000, 1, true }, 1), 1);
	end();
}

static void zero_length_is_refused(void)
{
	struct piece two[2];

	begin(rng_new, 0);
	two[0] = (struct piece){ buffer(16), 0, true };
	two[1] = (struct piece){ buffer(16), 16, true };
	chain_add(&v, 0, two, 2);
	refused();
}

/* What the device may write comes last. */
static void readable_after_writable_is_refused(void)
{
	struct piece two[2];

	begin(rng_new, 0);
	two[0] = (struct piece){ buffer(16), 16, true };
	two[1] = (struct piece){ buffer(16), 16, false };
	chain_add(&v, 0, two, 2);
	refused();
}

static void wrong_direction_is_refused(void)
{
	begin(rng_new, 0);
	chain_add(&v, 0, &(struct piece){ buffer(16), 16, false }, 1);
	refused();
	begin(balloon_new, 0);
	chain_add(&v, 0, &(struct piece){ buffer(16), 16, true }, 1);
	refused();
}

/* The sum of a chain's bytes stays a number of 32 bits. */
static void lengths_that_overflow_are_refused(void)
{
	struct piece all[VIRTIO_QUEUE_MAX];

	stage_start(512 << 20);
	v = (struct driver){ 0 };
	CHECK_INT(rng_new(&ram, &the_loop, &v.d), 0);
	driver_start_sized(&v, 0, VIRTIO_QUEUE_MAX);
	for (unsigned i = 0; i < VIRTIO_QUEUE_MAX; i++)
		all[i] = (struct piece){ 0, 512 << 20, true };
	chain_add(&v, 0, all, VIRTIO_QUEUE_MAX);
	refused();
}

/* The driver is not asked for what it does not offer: no exits while busy. */
static void event_index_asks_for_kicks_and_interrupts(void)
{
	uint64_t gpa;
	struct vring_used_elem e;

	begin(rng_new, 1ull << VIRTIO_RING_F_EVENT_IDX);
	gpa = buffer(16);
	/* avail_event, behind the used ring, says of which chain to be told. */
	CHECK_INT(*(uint16_t *)&used(&v, 0)->ring[QUEUE_SIZE], 0);
	avail(&v, 0)->ring[QUEUE_SIZE] = 1; /* used_event: not of the first */
	chain_add(&v, 0, &(struct piece){ gpa, 16, true }, 1);
	interrupted(&v);
	kick(&v, 0);
	loop_settle();
	CHECK(used_next(&v, 0, &e) && !interrupted(&v));
	CHECK_INT(*(uint16_t *)&used(&v, 0)->ring[QUEUE_SIZE], 1);
	chain_add(&v, 0, &(struct piece){ gpa, 16, true }, 1);
	kick(&v, 0);
	loop_settle();
	CHECK(used_next(&v, 0, &e) && interrupted(&v));
	end();
}

static void driver_that_wants_no_interrupt_gets_none(void)
{
	begin(rng_new, 0);
	avail(&v, 0)->flags = VRING_AVAIL_F_NO_INTERRUPT;
	interrupted(&v);
	request(&v, 0, &(struct piece){ buffer(16), 16, true }, 1);
	CHECK(!interrupted(&v));
	end();
}

static void what_is_written_is_dirty(void)
{
	uint64_t gpa;

	begin(rng_new, 0);
	gpa = buffer(3 * MEMORY_PAGE) / MEMORY_PAGE * MEMORY_PAGE + MEMORY_PAGE;
	dirty_clear();
	request(&v, 0, &(struct piece){ gpa + MEMORY_PAGE - 1, 2, true }, 1);
	CHECK(!page_is_dirty(gpa - 1));
	CHECK(page_is_dirty(gpa) && page_is_dirty(gpa + MEMORY_PAGE));
	CHECK(page_is_dirty(v.ring[0].used_gpa) && page_is_dirty(RAM_BYTES - 1));
	CHECK(!page_is_dirty(v.ring[0].desc_gpa));
	end();
}

/* vm-memory #93: whoever sees the index sees the entry, on another CPU too. */
enum { PUSHES = 50000, NOT_YET = 0xdead };

struct reader {
	unsigned seen, torn;
};

static void *driver_thread(void *arg)
{
	struct reader *r = arg;

	for (unsigned seen = 0; seen < PUSHES;) {
		uint16_t idx = __atomic_load_n(&used(&v, 0)->idx, __ATOMIC_ACQUIRE);

		for (; (uint16_t)seen != idx; seen++)
			r->torn += used(&v, 0)->ring[seen % QUEUE_SIZE].len == NOT_YET;
		if (__atomic_exchange_n(&r->seen, seen, __ATOMIC_RELEASE) == seen)
			sched_yield(); /* where both have one processor */
	}
	return NULL;
}

static void index_follows_the_entry(void)
{
	struct reader r = { 0 };
	struct virtio_queue *q;
	pthread_t thread;

	begin(rng_new, 0);
	q = &v.d->queue[0];
	CHECK_INT(pthread_create(&thread, NULL, driver_thread, &r), 0);
	for (unsigned i = 0; i < PUSHES; i++) {
		while (i - __atomic_load_n(&r.seen, __ATOMIC_ACQUIRE) >= QUEUE_SIZE)
			sched_yield();
		q->used->ring[i % QUEUE_SIZE].len = NOT_YET;
		virtqueue_push(q, 0, 1);
	}
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(r.torn, 0);
	end();
}

/* FC #5260's class: a driver that always has one more. */
static void *refill_thread(void *arg)
{
	while (!__atomic_load_n((bool *)arg, __ATOMIC_ACQUIRE))
		__atomic_store_n(
			&avail(&v, 0)->idx,
			(uint16_t)(__atomic_load_n(&used(&v, 0)->idx, __ATOMIC_ACQUIRE) + QUEUE_SIZE),
			__ATOMIC_RELEASE);
	return NULL;
}

static void endless_ring_leaves_others_their_turn(void)
{
	bool done = false;
	pthread_t thread;

	begin(rng_new, 0);
	chain_make(&v, 0, &(struct piece){ buffer(16), 1, true }, 1);
	CHECK_INT(pthread_create(&thread, NULL, refill_thread, &done), 0);
	for (unsigned served = 0; served < 4000;) {
		uint16_t was = used(&v, 0)->idx, now;

		kick(&v, 0);
		CHECK(loop_turn(1000));
		now = (uint16_t)(used(&v, 0)->idx - was);
		CHECK(now <= RNG_BUDGET);
		served += now;
	}
	__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK(virtio_device_live(v.d));
	end();
}

/* A driver that changes its mind while it is being served: what was checked is
 * what is used, whatever stands in memory by then. */
static void *scribble_thread(void *arg)
{
	static const uint64_t addresses[] = { 0x1000, RAM_BYTES - 1, UINT64_MAX, MEMORY_HOLE,
					      RAM_BYTES - 64 };
	static const uint32_t lengths[] = { 16, UINT32_MAX, 64, 2, RAM_BYTES };

	for (unsigned i = 0; !__atomic_load_n((bool *)arg, __ATOMIC_ACQUIRE); i++) {
		struct vring_desc *d = desc(&v, 0, i % 3);

		__atomic_store_n(&d->addr, addresses[i % 7 % 5], __ATOMIC_RELAXED);
		__atomic_store_n(&d->len, lengths[i % 11 % 5], __ATOMIC_RELAXED);
		__atomic_store_n(&d->next, (uint16_t)(i % 13 % 5), __ATOMIC_RELAXED);
		__atomic_store_n(&d->flags, (uint16_t)(i % 17 % 4), __ATOMIC_RELAXED);
		if (i % 64 == 0)
			sched_yield(); /* where both have one processor */
	}
	return NULL;
}

static void descriptors_that_change_meanwhile(void)
{
	bool done = false;
	pthread_t thread;
	unsigned served = 0, refusals = 0;

	begin(rng_new, 0);
	CHECK_INT(pthread_create(&thread, NULL, scribble_thread, &done), 0);
	while (served < 200 || refusals < 200) {
		driver_start_sized(&v, 0, QUEUE_SIZE);
		head_add(&v, 0, 0);
		head_add(&v, 0, 1);
		kick(&v, 0);
		loop_settle();
		refusals += broken(&v);
		served += used(&v, 0)->idx;
	}
	__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	CHECK_INT(pthread_join(thread, NULL), 0);
	end();
}

int main(void)
{
	chains_wrap_around_the_indices();
	avail_index_beyond_the_queue();
	head_beyond_the_queue();
	next_beyond_the_queue();
	chain_loops();
	chain_as_long_as_the_queue();
	indirect_is_refused();
	piece_outside_ram();
	zero_length_is_refused();
	readable_after_writable_is_refused();
	wrong_direction_is_refused();
	lengths_that_overflow_are_refused();
	event_index_asks_for_kicks_and_interrupts();
	driver_that_wants_no_interrupt_gets_none();
	what_is_written_is_dirty();
	index_follows_the_entry();
	endless_ring_leaves_others_their_turn();
	descriptors_that_change_meanwhile();
	return 0;
}
