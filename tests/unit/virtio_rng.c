/* UNIT: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* Random bytes: there are some, and never more than a request may have. */
#include "virtio_driver.h"
#include "vmm/virtio/rng.h"

static struct driver v;

static void begin(void)
{
	struct virtio_device *d;

	stage_start(RAM_BYTES);
	CHECK_INT(rng_new(&ram, &the_loop, &d), 0);
	driver_start(&v, d, 0);
}

static void end(void)
{
	virtio_device_free(v.d);
	stage_end();
}

static unsigned zeros(uint64_t gpa, uint32_t len)
{
	const uint8_t *bytes = at(gpa);
	unsigned n = 0;

	for (uint32_t i = 0; i < len; i++)
		n += bytes[i] == 0;
	return n;
}

static void bytes_are_random_to_the_last(void)
{
	uint64_t gpa;

	begin();
	gpa = buffer(4096 + 1);
	CHECK_INT(request(&v, 0, &(struct piece){ gpa, 4096, true }, 1), 4096);
	CHECK(zeros(gpa, 4096) < 100);
	CHECK(zeros(gpa + 4096 - 16, 16) < 16);
	CHECK_INT(zeros(gpa + 4096, 1), 1);
	end();
}

static void every_piece_of_a_chain_is_filled(void)
{
	struct piece three[3];

	begin();
	for (unsigned i = 0; i < 3; i++)
		three[i] = (struct piece){ buffer(64), 64, true };
	CHECK_INT(request(&v, 0, three, 3), 192);
	for (unsigned i = 0; i < 3; i++)
		CHECK(zeros(three[i].gpa, 64) < 8);
	end();
}

static void request_is_capped(void)
{
	uint64_t gpa;

	begin();
	gpa = buffer(2 * RNG_REQUEST_MAX);
	CHECK_INT(request(&v, 0, &(struct piece){ gpa, 2 * RNG_REQUEST_MAX, true }, 1), RNG_REQUEST_MAX);
	CHECK_INT(zeros(gpa + RNG_REQUEST_MAX, RNG_REQUEST_MAX), RNG_REQUEST_MAX);
	end();
}

/* FC #5762: the same bytes many times over are many bytes. */
static void overlapping_pieces_do_not_lift_the_cap(void)
{
	struct piece all[QUEUE_SIZE];

	begin();
	for (unsigned i = 0; i < QUEUE_SIZE; i++)
		all[i] = (struct piece){ 0, RAM_BYTES / 2, true };
	CHECK_INT(request(&v, 0, all, QUEUE_SIZE), RNG_REQUEST_MAX);
	CHECK_INT(zeros(RNG_REQUEST_MAX, 4096), 4096);
	end();
}

int main(void)
{
	bytes_are_random_to_the_last();
	every_piece_of_a_chain_is_filled();
	request_is_capped();
	overlapping_pieces_do_not_lift_the_cap();
	return 0;
}
