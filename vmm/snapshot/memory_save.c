#include "memory_save.h"

#include <errno.h>
#include <unistd.h>

#include "file.h"
#include "vmm/pages.h"

/* Runs of pages that are not zeros, one write each. */
int memory_save(const struct guest_memory *m, int fd)
{
	uint64_t start = 0, at = 0;
	int err = 0;

	if (ftruncate(fd, 0) != 0 || ftruncate(fd, (off_t)m->size) != 0)
		return -errno;
	while (at < m->size && !err) {
		if (!pages_is_zero(m->base + at)) {
			at += MEMORY_PAGE;
			continue;
		}
		err = file_write(fd, m->base + start, at - start, start);
		at += MEMORY_PAGE;
		start = at;
	}
	return err ? err : file_write(fd, m->base + start, at - start, start);
}
