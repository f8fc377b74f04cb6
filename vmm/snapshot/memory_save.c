#include "memory_save.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static bool page_is_zero(const uint8_t *page)
{
	/* A page that starts with a zero and equals itself one byte on is zeros. */
	return page[0] == 0 && memcmp(page, page + 1, MEMORY_PAGE - 1) == 0;
}

static int write_range(const struct guest_memory *m, int fd, uint64_t from, uint64_t to)
{
	while (from < to) {
		ssize_t n = pwrite(fd, m->base + from, to - from, (off_t)from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		from += (uint64_t)n;
	}
	return 0;
}

/* Runs of pages that are not zeros, one write each. */
int memory_save(const struct guest_memory *m, int fd)
{
	uint64_t start = 0, at = 0;
	int err = 0;

	if (ftruncate(fd, 0) != 0 || ftruncate(fd, (off_t)m->size) != 0)
		return -errno;
	while (at < m->size && !err) {
		if (!page_is_zero(m->base + at)) {
			at += MEMORY_PAGE;
			continue;
		}
		err = write_range(m, fd, start, at);
		at += MEMORY_PAGE;
		start = at;
	}
	return err ? err : write_range(m, fd, start, at);
}
