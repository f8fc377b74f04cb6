#include "memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Addresses for RAM and a guard page at either end; nothing accessible yet. */
static int reserve(uint64_t size, uint8_t **ret)
{
	uint8_t *at;

	if (size < MEMORY_MIN || size > MEMORY_MAX || size % MEMORY_PAGE)
		return -EINVAL;
	at = mmap(NULL, size + 2 * MEMORY_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		  0);
	if (at == MAP_FAILED)
		return -errno;
	*ret = at + MEMORY_PAGE;
	return 0;
}

static void release(uint8_t *base, uint64_t size)
{
	munmap(base - MEMORY_PAGE, size + 2 * MEMORY_PAGE);
}

static int populate(struct guest_memory *ret, int fd, int flags, uint64_t size)
{
	uint8_t *base = NULL;
	int err = reserve(size, &base);

	if (err)
		return err;
	if (mmap(base, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | flags, fd,
		 0) == MAP_FAILED) {
		err = -errno;
		release(base, size);
		return err;
	}
	/* A guest's memory is its owner's; a core dump of the monitor has no use for it. */
	madvise(base, size, MADV_DONTDUMP);
	*ret = (struct guest_memory){ .base = base, .size = size };
	return 0;
}

int memory_new(struct guest_memory *ret, uint64_t size)
{
	return populate(ret, -1, MAP_ANONYMOUS, size);
}

int memory_map(struct guest_memory *ret, int fd, uint64_t size)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	/* Past the end of a shorter file the mapping would be there, and kill us. */
	if (!S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size != size)
		return -EINVAL;
	return populate(ret, fd, 0, size);
}

void memory_free(struct guest_memory *m)
{
	if (m->base)
		release(m->base, m->size);
	free((void *)m->dirty);
	*m = (struct guest_memory){ 0 };
}

int memory_track(struct guest_memory *m)
{
	uint64_t pages = m->size / MEMORY_PAGE;

	if (!m->dirty)
		m->dirty = calloc((pages + 63) / 64, sizeof(*m->dirty));
	return m->dirty ? 0 : -ENOMEM;
}

uint64_t memory_low(const struct guest_memory *m)
{
	return m->size < MEMORY_HOLE ? m->size : MEMORY_HOLE;
}

uint64_t memory_high(const struct guest_memory *m)
{
	return m->size - memory_low(m);
}

/* The offset of [gpa, gpa+len) from base; false unless it lies in one region. */
static int offset_of(const struct guest_memory *m, uint64_t gpa, uint64_t len, uint64_t *ret)
{
	uint64_t start = 0, room = memory_low(m), skipped = 0;

	if (gpa >= MEMORY_HOLE_END) {
		start = MEMORY_HOLE_END;
		room = memory_high(m);
		skipped = MEMORY_HOLE;
	}
	if (len == 0 || gpa - start > room || len > room - (gpa - start))
		return 0;
	*ret = skipped + (gpa - start);
	return 1;
}

void *memory_at(const struct guest_memory *m, uint64_t gpa, uint64_t len)
{
	uint64_t offset;

	return offset_of(m, gpa, len, &offset) ? m->base + offset : NULL;
}

void memory_mark_dirty(const struct guest_memory *m, uint64_t gpa, uint64_t len)
{
	uint64_t offset;

	if (!m->dirty || !offset_of(m, gpa, len, &offset))
		return;
	memory_mark_pages(m, offset / MEMORY_PAGE,
			  (offset + len - 1) / MEMORY_PAGE - offset / MEMORY_PAGE + 1);
}

void memory_mark_pages(const struct guest_memory *m, uint64_t first, uint64_t count)
{
	for (uint64_t page = first; m->dirty && page < first + count; page++)
		atomic_fetch_or_explicit(&m->dirty[page / 64], 1ull << (page % 64), memory_order_relaxed);
}

void memory_mark_log(const struct guest_memory *m, uint64_t first, const uint64_t *log, uint64_t count)
{
	for (uint64_t i = 0; i < (count + 63) / 64; i++)
		if (log[i])
			atomic_fetch_or_explicit(&m->dirty[first / 64 + i], log[i], memory_order_relaxed);
}

bool memory_is_dirty(const struct guest_memory *m, uint64_t page)
{
	return atomic_load_explicit(&m->dirty[page / 64], memory_order_relaxed) >> (page % 64) & 1;
}
