/* Guest RAM: guest physical [0, 3 GiB) and, above it, from 4 GiB on; the hole
 * between the two is the devices'. In the host it is one mapping in that order
 * without the hole, so an offset into it is an offset into the memory file; an
 * inaccessible page lies at either end.
 *
 * Guest addresses are hostile: memory_at() is the only way from one to a
 * pointer. Written once before vCPUs run, then read by every thread.
 */
#ifndef CARREL_MACHINE_MEMORY_H
#define CARREL_MACHINE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define MEMORY_HOLE (3ull << 30)
#define MEMORY_HOLE_END (4ull << 30)
#define MEMORY_PAGE 4096ull
/* Kernel, initramfs and the page tables below them want this much. */
#define MEMORY_MIN (32ull << 20)
/* Size classes end at 4 GiB; the rest is room for classes to come. */
#define MEMORY_MAX (64ull << 30)

struct guest_memory {
	uint8_t *base; /* host address of guest physical 0; guard pages at both ends */
	uint64_t size; /* bytes of RAM, whole pages; what is past MEMORY_HOLE appears from 4 GiB on */
	_Atomic uint64_t *dirty; /* our own bitmap, a bit a page in order of base; NULL: not tracked */
};

/* Zeroed RAM. -EINVAL: size is not a whole number of pages within the limits. */
int memory_new(struct guest_memory *ret, uint64_t size);
/* A snapshot's memory file of exactly that size, copy-on-write: the file stays as it
 * is, and must for as long as the machine lives. The descriptor stays the caller's. */
int memory_map(struct guest_memory *ret, int fd, uint64_t size);
/* Legal for one that is zero. */
void memory_free(struct guest_memory *m);
/* From now on marks are kept; none are there yet. */
int memory_track(struct guest_memory *m);

/* Bytes of RAM below the hole, and above it. */
uint64_t memory_low(const struct guest_memory *m);
uint64_t memory_high(const struct guest_memory *m);

/* The host address of [gpa, gpa+len), or NULL unless all of it is RAM in one region. len 0 is NULL. */
void *memory_at(const struct guest_memory *m, uint64_t gpa, uint64_t len);
/* What the monitor itself wrote there: KVM's log does not see it. Nothing happens where it is not tracked. */
void memory_mark_dirty(const struct guest_memory *m, uint64_t gpa, uint64_t len);
/* The same by pages, counted in order of base. */
void memory_mark_pages(const struct guest_memory *m, uint64_t first, uint64_t count);
/* A log in KVM's form, of count pages from first on, a multiple of 64. */
void memory_mark_log(const struct guest_memory *m, uint64_t first, const uint64_t *log, uint64_t count);
bool memory_is_dirty(const struct guest_memory *m, uint64_t page);

#endif
