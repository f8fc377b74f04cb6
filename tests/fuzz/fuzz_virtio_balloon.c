/* FUZZ: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* The balloon's registers and rings, by any driver; the target moves. */
#include "virtio.h"
#include "vmm/virtio/balloon.h"

static struct virtio_device *make(void)
{
	struct virtio_device *d;

	CHECK_INT(balloon_new(&ram, &the_loop, &d), 0);
	return d;
}

static void own(struct driver *v, uint8_t a, uint8_t b)
{
	balloon_set_target(v->d, a * 256u + b);
	balloon_actual(v->d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	virtio_fuzz(data, size, make, own);
	return 0;
}
