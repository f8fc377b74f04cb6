/* FUZZ: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* Saved states that are none. First byte: which device; then the state, put over
 * one that could be; what is left of the input is its RAM's end, where the rings
 * are. What is taken is run, and saved and loaded again. */
#include <sys/mman.h>
#include <sys/socket.h>

#include "../unit/virtio_driver.h"
#include "vmm/virtio/balloon.h"
#include "vmm/virtio/blk.h"
#include "vmm/virtio/console.h"
#include "vmm/virtio/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int console_make(struct virtio_device **ret)
{
	struct console_port_options port = { "carrel.agent", socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0) };

	CHECK_INT(bind(port.listen_fd, &(struct sockaddr){ AF_UNIX }, sizeof(sa_family_t)), 0);
	CHECK_INT(listen(port.listen_fd, 1), 0);
	return console_new(&ram, &the_loop, &port, 1, ret);
}

static int disk_make(struct virtio_device **ret)
{
	int fd = memfd_create("disk", MFD_CLOEXEC);

	CHECK_INT(ftruncate(fd, 65536), 0);
	return blk_new(&ram, &the_loop, fd, 0, "fuzz", ret);
}

static struct virtio_device *make(unsigned kind)
{
	struct virtio_device *d;
	int err;

	switch (kind % 4) {
	case 0:
		err = rng_new(&ram, &the_loop, &d);
		break;
	case 1:
		err = balloon_new(&ram, &the_loop, &d);
		break;
	case 2:
		err = console_make(&d);
		break;
	default:
		err = disk_make(&d);
		break;
	}
	CHECK_INT(err, 0);
	return d;
}

/* A driver's registers, read and written, and every queue. */
static void run(struct driver *v)
{
	for (unsigned i = 0; i < v->d->queues; i++)
		kick(v, i);
	loop_settle();
	for (uint64_t offset = 0; offset < 0x120; offset += 4)
		reg(v, offset);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct virtio_device_state s;
	struct driver v = { 0 };
	size_t n;

	if (size < 1)
		return 0;
	stage_start(RAM_BYTES);
	driver_start(&v, make(data[0]), 0);
	virtio_device_save(v.d, &s);
	virtio_device_free(v.d);
	n = size - 1 < sizeof(s) ? size - 1 : sizeof(s);
	for (size_t i = 0; i < n; i++)
		((uint8_t *)&s)[i] ^= data[1 + i];
	n = size - 1 - n < RINGS_BYTES ? size - 1 - n : RINGS_BYTES;
	memcpy(at(RAM_BYTES - 2 * RINGS_BYTES), data + size - n, n);
	v.d = make(data[0]);
	if (virtio_device_load(v.d, &s) == 0) {
		run(&v);
		CHECK_INT(virtio_device_drain(v.d), 0);
		virtio_device_save(v.d, &s);
		virtio_device_free(v.d);
		v.d = make(data[0]);
		CHECK_INT(virtio_device_load(v.d, &s), 0);
		run(&v);
	}
	virtio_device_free(v.d);
	stage_end();
	return 0;
}
