/* UNIT: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* Devices that were saved go on in another monitor; what was never saved is
 * refused. */
#include <fcntl.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_console.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "virtio_driver.h"
#include "vmm/virtio/balloon.h"
#include "vmm/virtio/blk.h"
#include "vmm/virtio/console.h"
#include "vmm/virtio/rng.h"

static struct driver v;

static struct virtio_device *rng_make(void)
{
	struct virtio_device *d;

	CHECK_INT(rng_new(&ram, &the_loop, &d), 0);
	return d;
}

static struct virtio_device *balloon_make(void)
{
	struct virtio_device *d;

	CHECK_INT(balloon_new(&ram, &the_loop, &d), 0);
	return d;
}

static struct virtio_device *disk_make(uint64_t bytes, unsigned flags)
{
	struct virtio_device *d;
	int fd = memfd_create("disk", MFD_CLOEXEC);

	CHECK_INT(ftruncate(fd, (off_t)bytes), 0);
	CHECK_INT(blk_new(&ram, &the_loop, fd, flags, "id", &d), 0);
	return d;
}

static struct virtio_device *console_make(unsigned ports)
{
	struct console_port_options options[2] = { { .name = "one" }, { .name = "two" } };
	struct virtio_device *d;

	for (unsigned i = 0; i < ports; i++) {
		options[i].listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		CHECK_INT(bind(options[i].listen_fd, &(struct sockaddr){ AF_UNIX }, sizeof(sa_family_t)), 0);
		CHECK_INT(listen(options[i].listen_fd, 1), 0);
	}
	CHECK_INT(console_new(&ram, &the_loop, options, ports, &d), 0);
	return d;
}

static struct virtio_device_state saved(void)
{
	struct virtio_device_state s;

	CHECK_INT(virtio_device_drain(v.d), 0);
	virtio_device_save(v.d, &s);
	return s;
}

static int load(struct virtio_device *d, const struct virtio_device_state *s)
{
	int err = virtio_device_load(d, s);

	virtio_device_free(v.d);
	v.d = d;
	return err;
}

static void device_goes_on_where_it_was(void)
{
	struct virtio_device_state s;
	uint64_t gpa;

	stage_start(RAM_BYTES);
	driver_start(&v, rng_make(), 1ull << VIRTIO_RING_F_EVENT_IDX);
	gpa = buffer(16);
	for (unsigned i = 0; i < 70000; i++)
		CHECK_INT(request(&v, 0, &(struct piece){ gpa, 16, true }, 1), 16);
	s = saved();
	CHECK_INT(load(rng_make(), &s), 0);
	CHECK_INT(status(&v), 15);
	CHECK_INT(request(&v, 0, &(struct piece){ gpa, 16, true }, 1), 16);
	virtio_device_free(v.d);
	stage_end();
}

/* What the driver asked for just before the save is answered after the load,
 * though its kick stayed in the old monitor; and so is an interrupt. */
static void kicks_and_interrupts_are_not_lost(void)
{
	struct virtio_device_state s;

	stage_start(RAM_BYTES);
	driver_start(&v, rng_make(), 0);
	chain_add(&v, 0, &(struct piece){ buffer(16), 16, true }, 1);
	v.d->interrupt_status = VIRTIO_MMIO_INT_VRING;
	s = saved();
	CHECK_INT(load(rng_make(), &s), 0);
	CHECK(interrupted(&v));
	CHECK_INT(used_wait(&v, 0).len, 16);
	virtio_device_free(v.d);
	stage_end();
}

static void driver_in_the_middle_of_its_start_goes_on(void)
{
	struct virtio_device_state s;

	stage_start(RAM_BYTES);
	v = (struct driver){ .d = rng_make() };
	features_accept(&v, 0);
	ring_place(&v, 0, QUEUE_SIZE);
	ring_registers(&v, 0);
	s = saved();
	CHECK_INT(load(rng_make(), &s), 0);
	status_add(&v, VIRTIO_CONFIG_S_DRIVER_OK);
	CHECK_INT(request(&v, 0, &(struct piece){ buffer(16), 16, true }, 1), 16);
	virtio_device_free(v.d);
	stage_end();
}

static void broken_device_stays_broken(void)
{
	struct virtio_device_state s;

	stage_start(RAM_BYTES);
	driver_start(&v, rng_make(), 0);
	virtio_device_break(v.d, "by the test");
	s = saved();
	CHECK_INT(load(rng_make(), &s), 0);
	CHECK(broken(&v));
	kick(&v, 0);
	loop_settle();
	virtio_device_free(v.d);
	stage_end();
}

static void balloon_keeps_its_target(void)
{
	struct virtio_device_state s;

	stage_start(RAM_BYTES);
	driver_start(&v, balloon_make(), 0);
	balloon_set_target(v.d, 12);
	reg_set(&v, 0x104, 11);
	s = saved();
	CHECK_INT(load(balloon_make(), &s), 0);
	CHECK_INT(reg(&v, 0x100), 12);
	CHECK_INT(balloon_actual(v.d), 11);
	virtio_device_free(v.d);
	stage_end();
}

static void snapshot_belongs_to_its_disks(void)
{
	struct virtio_device_state s;

	stage_start(RAM_BYTES);
	driver_start(&v, disk_make(1 << 20, 0), 0);
	s = saved();
	CHECK_INT(load(disk_make(1 << 20, 0), &s), 0);
	CHECK_INT(load(disk_make(2 << 20, 0), &s), -EINVAL);
	CHECK_INT(load(disk_make(1 << 20, BLK_READ_ONLY), &s), -EINVAL);
	CHECK_INT(load(rng_make(), &s), -EINVAL);
	virtio_device_free(v.d);
	stage_end();
}

/* The client was the old machine's: the guest hears that it went. */
static void guest_of_a_clone_hears_that_the_client_is_gone(void)
{
	struct virtio_device_state s;
	struct virtio_console_control *c;
	struct vring_used_elem e;
	uint64_t gpa;

	stage_start(RAM_BYTES);
	driver_start(&v, console_make(1), 1ull << VIRTIO_CONSOLE_F_MULTIPORT);
	s = saved();
	((uint32_t *)s.own)[1] = 1 | 2 | 4; /* ready, open, told of a client */
	CHECK_INT(load(console_make(1), &s), 0);
	gpa = buffer(64);
	chain_add(&v, 2, &(struct piece){ gpa, 64, true }, 1);
	kick(&v, 2);
	loop_settle();
	CHECK(used_next(&v, 2, &e));
	c = at(gpa);
	CHECK_INT(c->event, VIRTIO_CONSOLE_PORT_OPEN);
	CHECK_INT(c->value, 0);
	CHECK_INT(load(console_make(2), &s), -EINVAL);
	((uint32_t *)s.own)[1] = 64;
	CHECK_INT(load(console_make(1), &s), -EINVAL);
	((uint32_t *)s.own)[1] = 0;
	((uint32_t *)s.own)[2] = 1; /* of a port that is not there */
	CHECK_INT(load(console_make(1), &s), -EINVAL);
	virtio_device_free(v.d);
	stage_end();
}

#define WRONG(field, value)                                       \
	do {                                                      \
		struct virtio_device_state wrong = s;             \
		wrong.field = (value);                            \
		CHECK_INT(load(balloon_make(), &wrong), -EINVAL); \
	} while (0)

static void what_was_never_saved_is_refused(void)
{
	struct virtio_device_state s;

	stage_start(RAM_BYTES);
	driver_start(&v, balloon_make(), 0);
	s = saved();
	CHECK_INT(load(balloon_make(), &s), 0);
	WRONG(id, 0);
	WRONG(queues, 0);
	WRONG(queues, VIRTIO_QUEUES_MAX + 1);
	WRONG(queues, UINT32_MAX);
	WRONG(status, 16);
	WRONG(status, 4);
	WRONG(status, 15 | 256);
	WRONG(interrupt_status, 4);
	WRONG(driver_features, 0);
	WRONG(driver_features, UINT64_MAX);
	WRONG(own_size, VIRTIO_STATE_MAX + 1);
	WRONG(own_size, UINT32_MAX);
	WRONG(own_size, 0);
	WRONG(queue[0].ready, 2);
	WRONG(queue[0].size, 0);
	WRONG(queue[0].size, 3);
	WRONG(queue[0].size, 256);
	WRONG(queue[0].size, 65536);
	WRONG(queue[0].desc, RAM_BYTES);
	WRONG(queue[1].avail, MEMORY_HOLE);
	WRONG(queue[2].used, UINT64_MAX - 3);
	WRONG(queue[2].used, 2);
	virtio_device_free(v.d);
	stage_end();
}

/* Any index: the ring's own, then, is what a driver might have written. */
static void index_that_is_not_the_rings_breaks_and_no_more(void)
{
	struct virtio_device_state s;

	stage_start(RAM_BYTES);
	driver_start(&v, rng_make(), 0);
	s = saved();
	s.queue[0].next = 0x7777;
	CHECK_INT(load(rng_make(), &s), 0);
	loop_settle();
	CHECK(broken(&v));
	virtio_device_free(v.d);
	stage_end();
}

int main(void)
{
	device_goes_on_where_it_was();
	kicks_and_interrupts_are_not_lost();
	driver_in_the_middle_of_its_start_goes_on();
	broken_device_stays_broken();
	balloon_keeps_its_target();
	snapshot_belongs_to_its_disks();
	guest_of_a_clone_hears_that_the_client_is_gone();
	what_was_never_saved_is_refused();
	index_that_is_not_the_rings_breaks_and_no_more();
	return 0;
}
