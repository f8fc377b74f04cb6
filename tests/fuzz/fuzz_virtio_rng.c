/* FUZZ: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* The rng's registers and ring, by any driver. */
#include "virtio.h"
#include "vmm/virtio/rng.h"

static struct virtio_device *make(void)
{
	struct virtio_device *d;

	CHECK_INT(rng_new(&ram, &the_loop, &d), 0);
	return d;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	virtio_fuzz(data, size, make, NULL);
	return 0;
}
