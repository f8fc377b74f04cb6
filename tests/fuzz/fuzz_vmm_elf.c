/* FUZZ: vmm/machine/elf.c vmm/machine/memory.c vmm/machine/problem.c LIBS: */
/* Any file as a kernel: refused, or its entry lies inside of what was loaded. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/machine/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct guest_memory m;
	static int fd = -1;
	struct elf_kernel k;

	if (fd < 0 && ((fd = memfd_create("kernel", MFD_CLOEXEC)) < 0 || memory_new(&m, MEMORY_MIN) != 0))
		abort();
	if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (elf_load(&m, fd, &k, NULL) == 0 &&
	    (k.end > MEMORY_MIN || k.entry >= k.end || (k.has_pvh && k.pvh_entry >= k.end)))
		abort();
	return 0;
}
