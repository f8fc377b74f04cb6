/* UNIT: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* Pages that the guest gives up are gone from the host, read as zeros, of a
 * copy-on-write snapshot too, and are its own. */
#include <fcntl.h>
#include <linux/virtio_balloon.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "virtio_driver.h"
#include "vmm/virtio/balloon.h"

enum { INFLATE, DEFLATE, REPORT, PAGE = 4096, FIRST = 256 /* of the pages that are given */, PAGES = 64 };

static struct driver v;

static void device_start(void)
{
	struct virtio_device *d;

	CHECK_INT(balloon_new(&ram, &the_loop, &d), 0);
	driver_start(&v, d, d->features);
	for (unsigned i = 0; i < PAGES; i++)
		memset(at((uint64_t)(FIRST + i) * PAGE), 'a', PAGE);
	dirty_clear();
}

static void begin(void)
{
	stage_start(RAM_BYTES);
	device_start();
}

static void end(void)
{
	virtio_device_free(v.d);
	stage_end();
}

static bool page_is_zero(uint32_t pfn)
{
	const uint8_t *bytes = at((uint64_t)pfn * PAGE);

	return bytes[0] == 0 && bytes[PAGE - 1] == 0;
}

static bool page_is_there(uint32_t pfn)
{
	unsigned char there;

	CHECK_INT(mincore(at((uint64_t)pfn * PAGE), PAGE, &there), 0);
	return there & 1;
}

static struct piece pfns_make(const uint32_t *pfns, unsigned n)
{
	uint64_t gpa = buffer(n * 4);

	memcpy(at(gpa), pfns, n * 4);
	return (struct piece){ gpa, n * 4, false };
}

static void give(unsigned queue, const uint32_t *pfns, unsigned n)
{
	struct piece p = pfns_make(pfns, n);

	request(&v, queue, &p, 1);
}

static void pages_given_up_are_gone(void)
{
	static const uint32_t pfns[] = { FIRST + 5, FIRST + 6, FIRST + 4, FIRST + 3, FIRST + 20, FIRST + 20 };

	begin();
	give(INFLATE, pfns, 6);
	CHECK(!page_is_there(FIRST + 3) && !page_is_there(FIRST + 6) && !page_is_there(FIRST + 20));
	CHECK(page_is_there(FIRST + 2) && page_is_there(FIRST + 7) && page_is_there(FIRST + 19));
	for (uint32_t i = 0; i < PAGES; i++) {
		bool given = (i >= 3 && i <= 6) || i == 20;

		CHECK(page_is_dirty((uint64_t)(FIRST + i) * PAGE) == given);
		CHECK(page_is_zero(FIRST + i) == given);
	}
	end();
}

static void pages_taken_back_can_be_used(void)
{
	static const uint32_t pfns[] = { FIRST, FIRST + 1 };

	begin();
	give(INFLATE, pfns, 2);
	give(DEFLATE, pfns, 2);
	memset(at((uint64_t)FIRST * PAGE), 'b', 2 * PAGE);
	CHECK(page_is_there(FIRST) && !page_is_zero(FIRST + 1));
	end();
}

static int saved_memory(void)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);
	char page[PAGE];

	memset(page, 's', sizeof(page));
	for (unsigned i = 0; i < RAM_BYTES / PAGE; i++)
		CHECK_INT(write(fd, page, PAGE), PAGE);
	return fd;
}

/* MADV_DONTNEED would bring back what the file has. */
static void page_of_a_snapshot_does_not_come_back(void)
{
	static const uint32_t pfns[] = { FIRST + 1, 5000 };
	int fd = saved_memory();

	stage_start(RAM_BYTES);
	memory_free(&ram);
	CHECK_INT(memory_map(&ram, fd, RAM_BYTES), 0);
	CHECK_INT(memory_track(&ram), 0);
	device_start();
	CHECK_INT(*(char *)at(5000ull * PAGE), 's');
	give(INFLATE, pfns, 2);
	CHECK(page_is_zero(FIRST + 1) && page_is_zero(5000));
	CHECK_INT(*(char *)at(4999ull * PAGE), 's');
	CHECK_INT(*(char *)at(5001ull * PAGE), 's');
	end();
	close(fd);
}

static void free_pages_are_reported_and_gone(void)
{
	struct piece two[2];

	begin();
	/* Only whole pages can go. */
	two[0] = (struct piece){ FIRST * PAGE + 1, 3 * PAGE, true };
	two[1] = (struct piece){ (FIRST + 8) * PAGE, 2 * PAGE, true };
	request(&v, REPORT, two, 2);
	CHECK(!page_is_zero(FIRST) && page_is_zero(FIRST + 1) && page_is_zero(FIRST + 2));
	CHECK(!page_is_zero(FIRST + 3) && page_is_zero(FIRST + 8) && page_is_zero(FIRST + 9));
	two[0] = (struct piece){ (FIRST + 12) * PAGE + 1, PAGE, true };
	request(&v, REPORT, two, 1);
	CHECK(!page_is_zero(FIRST + 12) && !page_is_zero(FIRST + 13));
	end();
}

static void target_is_asked_for_and_answered(void)
{
	begin();
	balloon_set_target(v.d, 1000);
	CHECK(config_interrupt(&v));
	CHECK_INT(reg(&v, 0x100), 1000);
	reg_set(&v, 0x104, 900);
	CHECK_INT(balloon_actual(v.d), 900);
	CHECK(v.d->features >> VIRTIO_BALLOON_F_DEFLATE_ON_OOM & 1);
	end();
}

static bool breaks(unsigned queue, struct piece p)
{
	bool is;

	begin();
	chain_add(&v, queue, &p, 1);
	kick(&v, queue);
	loop_settle();
	is = broken(&v);
	end();
	return is;
}

static bool pfn_breaks(uint32_t pfn)
{
	uint32_t pfns[2] = { FIRST, pfn };
	struct piece p;
	bool is;

	begin();
	p = pfns_make(pfns, 2);
	chain_add(&v, INFLATE, &p, 1);
	kick(&v, INFLATE);
	loop_settle();
	is = broken(&v);
	end();
	return is;
}

static void pages_outside_ram_break(void)
{
	CHECK(pfn_breaks(RAM_BYTES / PAGE));
	CHECK(pfn_breaks(MEMORY_HOLE / PAGE));
	CHECK(pfn_breaks(UINT32_MAX));
	CHECK(!pfn_breaks(RAM_BYTES / PAGE - 1024));
}

static void requests_are_bounded(void)
{
	CHECK(breaks(INFLATE, (struct piece){ 0x1000, 3, false }));
	CHECK(breaks(INFLATE, (struct piece){ 0x1000, 6, false }));
	CHECK(breaks(INFLATE, (struct piece){ 0x1000, 4 * 1024 + 4, false }));
	CHECK(!breaks(INFLATE, (struct piece){ 0x1000, 4 * 1024, false }));
	CHECK(breaks(DEFLATE, (struct piece){ 0x1000, RAM_BYTES / 2, false }));
	CHECK(breaks(INFLATE, (struct piece){ 0x1000, 4, true }));
	CHECK(breaks(DEFLATE, (struct piece){ 0x1000, 4, true }));
	CHECK(breaks(REPORT, (struct piece){ 0x1000, 4, false }));
}

/* The rings' own page given up: the driver's loss. */
static void ring_given_up_is_the_drivers_loss(void)
{
	uint32_t pfn;

	begin();
	pfn = (uint32_t)(v.ring[DEFLATE].desc_gpa / PAGE);
	give(INFLATE, &pfn, 1);
	pfn = (uint32_t)(v.ring[INFLATE].avail_gpa / PAGE);
	chain_add(&v, INFLATE, &(struct piece){ 0x1000, 4, false }, 1);
	*(uint32_t *)at(0x1000) = pfn;
	kick(&v, INFLATE);
	kick(&v, DEFLATE);
	loop_settle();
	end();
}

int main(void)
{
	pages_given_up_are_gone();
	pages_taken_back_can_be_used();
	page_of_a_snapshot_does_not_come_back();
	free_pages_are_reported_and_gone();
	target_is_asked_for_and_answered();
	pages_outside_ram_break();
	requests_are_bounded();
	ring_given_up_is_the_drivers_loss();
	return 0;
}
