/* UNIT: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* The registers of a device: what a driver may do in which state, and that
 * nothing else has an effect. */
#include <linux/virtio_balloon.h>
#include <linux/virtio_ids.h>

#include "virtio_driver.h"
#include "vmm/virtio/balloon.h"
#include "vmm/virtio/rng.h"

static struct driver v;

static void rng_begin(void)
{
	stage_start(RAM_BYTES);
	v = (struct driver){ 0 };
	CHECK_INT(rng_new(&ram, &the_loop, &v.d), 0);
}

static void balloon_begin(void)
{
	stage_start(RAM_BYTES);
	v = (struct driver){ 0 };
	CHECK_INT(balloon_new(&ram, &the_loop, &v.d), 0);
}

static void end(void)
{
	virtio_device_free(v.d);
	stage_end();
}

static void identity_and_unknown_registers(void)
{
	rng_begin();
	CHECK_INT(reg(&v, VIRTIO_MMIO_MAGIC_VALUE), 0x74726976);
	CHECK_INT(reg(&v, VIRTIO_MMIO_VERSION), 2);
	CHECK_INT(reg(&v, VIRTIO_MMIO_DEVICE_ID), VIRTIO_ID_RNG);
	for (uint64_t offset = 0; offset < VIRTIO_MMIO_WINDOW; offset++)
		reg(&v, offset);
	CHECK_INT(reg(&v, 0x0c4), 0);
	end();
}

static void only_whole_registers_are_reached(void)
{
	uint8_t bytes[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

	rng_begin();
	for (unsigned len = 1; len <= 8; len++) {
		memset(bytes, 0xff, sizeof(bytes));
		if (len == 4)
			continue;
		virtio_mmio_read(v.d, VIRTIO_MMIO_MAGIC_VALUE, bytes, len);
		CHECK_INT(bytes[0], 0);
		bytes[0] = 1;
		virtio_mmio_write(v.d, VIRTIO_MMIO_STATUS, bytes, len);
		CHECK_INT(status(&v), 0);
	}
	end();
}

static void status_goes_forward_bit_by_bit(void)
{
	static const uint32_t leaps[] = { 2, 3, 4, 8, 11, 15, 0xffffff00 };

	rng_begin();
	for (unsigned i = 0; i < sizeof(leaps) / sizeof(*leaps); i++) {
		reg_set(&v, VIRTIO_MMIO_STATUS, leaps[i]);
		CHECK_INT(status(&v), 0);
	}
	driver_start(&v, v.d, 0);
	reg_set(&v, VIRTIO_MMIO_STATUS, 11);
	CHECK_INT(status(&v), 15);
	reg_set(&v, VIRTIO_MMIO_STATUS, 15 | VIRTIO_CONFIG_S_FAILED);
	CHECK(!virtio_device_live(v.d));
	reg_set(&v, VIRTIO_MMIO_STATUS, 15);
	CHECK_INT(status(&v), 15 | VIRTIO_CONFIG_S_FAILED);
	reg_set(&v, VIRTIO_MMIO_STATUS, 0);
	CHECK_INT(status(&v), 0);
	end();
}

static uint32_t features_of_half(uint32_t select)
{
	reg_set(&v, VIRTIO_MMIO_DEVICE_FEATURES_SEL, select);
	return reg(&v, VIRTIO_MMIO_DEVICE_FEATURES);
}

static void features_are_offered_in_two_halves(void)
{
	rng_begin();
	CHECK_INT(features_of_half(0), 1u << VIRTIO_RING_F_EVENT_IDX);
	CHECK_INT(features_of_half(1), 1u << (VIRTIO_F_VERSION_1 - 32));
	CHECK_INT(features_of_half(2), 0);
	CHECK_INT(features_of_half(UINT32_MAX), 0);
	end();
}

static void features_not_offered_are_refused(void)
{
	rng_begin();
	status_add(&v, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	status_add(&v, VIRTIO_CONFIG_S_DRIVER);
	status_add(&v, VIRTIO_CONFIG_S_FEATURES_OK);
	CHECK_INT(status(&v), 3); /* without VERSION_1 */
	reg_set(&v, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
	reg_set(&v, VIRTIO_MMIO_DRIVER_FEATURES, UINT32_MAX);
	status_add(&v, VIRTIO_CONFIG_S_FEATURES_OK);
	CHECK_INT(status(&v), 3);
	reg_set(&v, VIRTIO_MMIO_DRIVER_FEATURES, 1u << (VIRTIO_F_VERSION_1 - 32));
	status_add(&v, VIRTIO_CONFIG_S_FEATURES_OK);
	CHECK_INT(status(&v), 11);
	reg_set(&v, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 0);
	reg_set(&v, VIRTIO_MMIO_DRIVER_FEATURES, UINT32_MAX);
	CHECK_INT(v.d->driver_features, 1ull << VIRTIO_F_VERSION_1);
	end();
}

/* CVE-2026-5747's class. */
static void queue_registers_do_not_change_after_activation(void)
{
	struct virtio_queue was;

	rng_begin();
	driver_start(&v, v.d, 0);
	was = v.d->queue[0];
	reg_set(&v, VIRTIO_MMIO_QUEUE_SEL, 0);
	for (uint64_t offset = VIRTIO_MMIO_QUEUE_NUM; offset <= VIRTIO_MMIO_QUEUE_USED_HIGH; offset += 4)
		if (offset < VIRTIO_MMIO_QUEUE_NOTIFY || offset > VIRTIO_MMIO_STATUS)
			reg_set(&v, offset, 0xfffffff0);
	CHECK(memcmp(&was, &v.d->queue[0], sizeof(was)) == 0);
	CHECK_INT(request(&v, 0, &(struct piece){ buffer(16), 16, true }, 1), 16);
	end();
}

static void queue_registers_wait_for_features(void)
{
	rng_begin();
	reg_set(&v, VIRTIO_MMIO_QUEUE_NUM, 16);
	reg_set(&v, VIRTIO_MMIO_QUEUE_READY, 1);
	CHECK_INT(v.d->queue[0].size, 0);
	CHECK_INT(reg(&v, VIRTIO_MMIO_QUEUE_READY), 0);
	end();
}

static bool activates(uint32_t size, uint64_t desc_gpa, uint64_t avail_gpa, uint64_t used_gpa)
{
	struct ring r = { .desc_gpa = desc_gpa, .avail_gpa = avail_gpa, .used_gpa = used_gpa };
	bool live;

	features_accept(&v, 0);
	v.ring[0] = r;
	ring_registers(&v, 0);
	reg_set(&v, VIRTIO_MMIO_QUEUE_NUM, size);
	interrupted(&v);
	status_add(&v, VIRTIO_CONFIG_S_DRIVER_OK);
	live = virtio_device_live(v.d);
	CHECK(live == !broken(&v));
	CHECK(live == !config_interrupt(&v));
	kick(&v, 0);
	loop_settle();
	return live;
}

/* mvm #1860: 65,536 in 16 bits is no size, and then a modulus. */
static void queue_size_is_not_cut_to_16_bits(void)
{
	static const uint32_t sizes[] = { 0, 3, 127, 256, 65536, 65536 + 16, 0x80000000, UINT32_MAX };

	rng_begin();
	CHECK(activates(16, 0x1000, 0x2000, 0x3000));
	CHECK(activates(1, 0x1000, 0x2000, 0x3000));
	CHECK(activates(128, 0x1000, 0x2000, 0x3000));
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		CHECK(!activates(sizes[i], 0x1000, 0x2000, 0x3000));
	end();
}

static void rings_lie_aligned_in_ram(void)
{
	uint64_t last = RAM_BYTES - 4096;

	rng_begin();
	CHECK(!activates(16, 0x1008, 0x2000, 0x3000));
	CHECK(!activates(16, 0x1000, 0x2001, 0x3000));
	CHECK(!activates(16, 0x1000, 0x2000, 0x3002));
	CHECK(!activates(16, RAM_BYTES, 0x2000, 0x3000));
	CHECK(!activates(16, 0x1000, UINT64_MAX - 1, 0x3000));
	CHECK(!activates(16, UINT64_MAX - 15, 0x2000, 0x3000));
	/* Whole, with the event index at its end. */
	CHECK(activates(128, 0x1000, 0x2000, last + 4096 - (4 + 8 * 128 + 2) - 2));
	CHECK(!activates(128, 0x1000, 0x2000, last + 4096 - (4 + 8 * 128)));
	CHECK(activates(128, 0x1000, last + 4096 - (4 + 2 * 128 + 2), 0x3000));
	CHECK(!activates(128, 0x1000, last + 4096 - (4 + 2 * 128), 0x3000));
	CHECK(activates(128, last + 4096 - 16 * 128, 0x2000, 0x3000));
	CHECK(!activates(128, last + 4096 - 16 * 127, 0x2000, 0x3000));
	end();
}

/* Firecracker 1.5's class. */
static void queue_may_not_overlap_the_hole(void)
{
	stage_start(MEMORY_HOLE + (64 << 20));
	v = (struct driver){ 0 };
	CHECK_INT(rng_new(&ram, &the_loop, &v.d), 0);
	CHECK(activates(128, MEMORY_HOLE - 16 * 128, 0x2000, 0x3000));
	CHECK(!activates(128, MEMORY_HOLE - 16, 0x2000, 0x3000));
	CHECK(!activates(16, MEMORY_HOLE, 0x2000, 0x3000));
	CHECK(!activates(16, MEMORY_HOLE_END - 16, 0x2000, 0x3000));
	CHECK(!activates(16, 0x1000, MEMORY_HOLE_END - 2, 0x3000));
	CHECK(activates(16, MEMORY_HOLE_END, MEMORY_HOLE_END + 0x1000, MEMORY_HOLE_END + 0x2000));
	end();
}

/* kvmtool 31e0eac's class. */
static void queue_select_and_notify_out_of_range(void)
{
	static const uint32_t numbers[] = { 1, 6, 7, 0x7fffffff, 0x80000000, UINT32_MAX };

	rng_begin();
	features_accept(&v, 0);
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		reg_set(&v, VIRTIO_MMIO_QUEUE_SEL, numbers[i]);
		CHECK_INT(reg(&v, VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
		for (uint64_t offset = VIRTIO_MMIO_QUEUE_NUM; offset <= VIRTIO_MMIO_QUEUE_USED_HIGH;
		     offset += 4)
			if (offset != VIRTIO_MMIO_STATUS)
				reg_set(&v, offset, numbers[i]);
		CHECK_INT(reg(&v, VIRTIO_MMIO_QUEUE_READY), 0);
		kick(&v, numbers[i]);
	}
	reg_set(&v, VIRTIO_MMIO_QUEUE_SEL, 0);
	CHECK_INT(reg(&v, VIRTIO_MMIO_QUEUE_NUM_MAX), VIRTIO_QUEUE_MAX);
	CHECK_INT(v.d->queue[0].size, 0);
	loop_settle();
	end();
}

/* kvmtool e473028's class. */
static void config_space_is_bounded(void)
{
	static const uint64_t offsets[] = { 0x101, 0x105,  0x107,      0x108,          0xffc,
					    0xfff, 0x1000, UINT32_MAX, UINT64_MAX - 3, UINT64_MAX };
	uint8_t bytes[8];

	balloon_begin();
	driver_start(&v, v.d, 0);
	balloon_set_target(v.d, 0x01020304);
	for (unsigned i = 0; i < sizeof(offsets) / sizeof(*offsets); i++)
		for (unsigned len = 1; len <= 8; len++) {
			virtio_mmio_read(v.d, offsets[i], bytes, len);
			virtio_mmio_write(v.d, offsets[i], bytes, len);
		}
	CHECK_INT(reg(&v, 0x100), 0x01020304);
	memset(bytes, 0xff, sizeof(bytes));
	virtio_mmio_read(v.d, 0x101, bytes, 8);
	CHECK_INT(bytes[0] | bytes[7], 0);
	virtio_mmio_read(v.d, 0x103, bytes, 1);
	CHECK_INT(bytes[0], 1);
	end();
}

static void config_is_written_by_a_driver_only(void)
{
	balloon_begin();
	reg_set(&v, 0x104, 7);
	CHECK_INT(balloon_actual(v.d), 0);
	features_accept(&v, 0);
	reg_set(&v, 0x104, 7);
	CHECK_INT(balloon_actual(v.d), 7);
	reg_set(&v, 0x100, 7); /* the target is ours */
	CHECK_INT(reg(&v, 0x100), 0);
	end();
}

static void config_generation_survives_a_reset(void)
{
	uint32_t was;

	balloon_begin();
	driver_start(&v, v.d, 0);
	was = reg(&v, VIRTIO_MMIO_CONFIG_GENERATION);
	balloon_set_target(v.d, 5);
	CHECK(config_interrupt(&v));
	CHECK_INT(reg(&v, VIRTIO_MMIO_CONFIG_GENERATION), was + 1);
	reg_set(&v, VIRTIO_MMIO_STATUS, 0);
	CHECK_INT(reg(&v, VIRTIO_MMIO_CONFIG_GENERATION), was + 1);
	CHECK_INT(reg(&v, VIRTIO_MMIO_INTERRUPT_STATUS), 0);
	CHECK_INT(reg(&v, 0x100), 5);
	end();
}

static void interrupts_are_acknowledged_one_by_one(void)
{
	balloon_begin();
	driver_start(&v, v.d, 0);
	request(&v, 0, &(struct piece){ buffer(4), 4, false }, 1);
	balloon_set_target(v.d, 1);
	CHECK_INT(reg(&v, VIRTIO_MMIO_INTERRUPT_STATUS), 3);
	reg_set(&v, VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
	CHECK_INT(reg(&v, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_CONFIG);
	reg_set(&v, VIRTIO_MMIO_INTERRUPT_ACK, UINT32_MAX);
	CHECK_INT(reg(&v, VIRTIO_MMIO_INTERRUPT_STATUS), 0);
	end();
}

static void kick_before_activation_is_not_lost(void)
{
	struct vring_used_elem e;

	rng_begin();
	features_accept(&v, 0);
	ring_place(&v, 0, QUEUE_SIZE);
	ring_registers(&v, 0);
	chain_add(&v, 0, &(struct piece){ buffer(16), 16, true }, 1);
	kick(&v, 0);
	loop_settle();
	CHECK(!used_next(&v, 0, &e));
	status_add(&v, VIRTIO_CONFIG_S_DRIVER_OK);
	loop_settle();
	CHECK(used_next(&v, 0, &e));
	end();
}

/* kvmtool 3a13530's class: a queue used before it is there. */
static void queue_that_is_not_ready_is_never_touched(void)
{
	balloon_begin();
	for (uint32_t queue = 0; queue < 3; queue++)
		kick(&v, queue);
	loop_settle();
	features_accept(&v, 0);
	ring_place(&v, 0, QUEUE_SIZE);
	ring_registers(&v, 0);
	status_add(&v, VIRTIO_CONFIG_S_DRIVER_OK);
	for (uint32_t queue = 0; queue < 3; queue++)
		kick(&v, queue);
	loop_settle();
	CHECK(virtio_device_live(v.d));
	end();
}

static void broken_device_comes_back_by_a_reset(void)
{
	rng_begin();
	driver_start(&v, v.d, 0);
	head_add(&v, 0, 0x7fff);
	kick(&v, 0);
	loop_settle();
	CHECK(broken(&v) && config_interrupt(&v));
	chain_add(&v, 0, &(struct piece){ buffer(16), 16, true }, 1);
	kick(&v, 0);
	loop_settle();
	CHECK_INT(used(&v, 0)->idx, 0);
	driver_start(&v, v.d, 0);
	CHECK_INT(request(&v, 0, &(struct piece){ buffer(16), 16, true }, 1), 16);
	end();
}

int main(void)
{
	identity_and_unknown_registers();
	only_whole_registers_are_reached();
	status_goes_forward_bit_by_bit();
	features_are_offered_in_two_halves();
	features_not_offered_are_refused();
	queue_registers_do_not_change_after_activation();
	queue_registers_wait_for_features();
	queue_size_is_not_cut_to_16_bits();
	rings_lie_aligned_in_ram();
	queue_may_not_overlap_the_hole();
	queue_select_and_notify_out_of_range();
	config_space_is_bounded();
	config_is_written_by_a_driver_only();
	config_generation_survives_a_reset();
	interrupts_are_acknowledged_one_by_one();
	kick_before_activation_is_not_lost();
	queue_that_is_not_ready_is_never_touched();
	broken_device_comes_back_by_a_reset();
	return 0;
}
