/* FUZZ: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* A disk's registers and ring, by any driver, on a real io_uring. The file keeps
 * its size whatever is asked. */
#include <sys/mman.h>
#include <sys/stat.h>

#include "virtio.h"
#include "vmm/virtio/blk.h"

enum { DISK_BYTES = 64 * 1024 };

static int disk = -1;

static struct virtio_device *make(void)
{
	struct virtio_device *d;

	CHECK_INT(blk_new(&ram, &the_loop, dup(disk), BLK_DURABLE, "fuzz", &d), 0);
	return d;
}

/* What is in flight comes to its end. */
static void own(struct driver *v, uint8_t a, uint8_t b)
{
	(void)a, (void)b;
	CHECK_INT(virtio_device_drain(v->d), 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stat st;

	disk = memfd_create("disk", MFD_CLOEXEC);
	CHECK_INT(ftruncate(disk, DISK_BYTES), 0);
	virtio_fuzz(data, size, make, own);
	CHECK_INT(fstat(disk, &st), 0);
	CHECK_INT(st.st_size, DISK_BYTES);
	close(disk);
	return 0;
}
