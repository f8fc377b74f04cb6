/* FUZZ: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* Saved states that are none. First byte: which device; then the state, put over
 * one that could be; the rest is what its driver does if it was taken. */
#include <sys/mman.h>
#include <sys/socket.h>

#include "virtio.h"
#include "vmm/virtio/balloon.h"
#include "vmm/virtio/blk.h"
#include "vmm/virtio/console.h"
#include "vmm/virtio/rng.h"

static unsigned kind;

static int console_make(struct virtio_device **ret)
{
	struct console_port_options port = { "carrel.agent",
					     socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0) };

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

static struct virtio_device *make(void)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct virtio_device_state s;
	struct input in = { data, data + size };
	struct driver v = { 0 };

	stage_start(RAM_BYTES);
	kind = (unsigned)take(&in, 1);
	v.d = make();
	driver_start_sized(&v, 0, FUZZ_QUEUE_SIZE);
	virtio_device_save(v.d, &s);
	virtio_device_free(v.d);
	for (size_t i = 0; i < sizeof(s); i++)
		((uint8_t *)&s)[i] ^= (uint8_t)take(&in, 1);
	v.d = make();
	if (virtio_device_load(v.d, &s) == 0) {
		loop_settle();
		op_save(&v, make);
		while (in.at < in.end)
			op_do(&v, &in, make, NULL);
		loop_settle();
	}
	virtio_device_free(v.d);
	stage_end();
	return 0;
}
