/* The file of a paused machine's private pages: what differs from the memory
 * file of its snapshot. Written by carrel-spawn, read by carrel-preload.so
 * inside QEMU and by vmm/host/pages.c; one definition for all three, and inline
 * because the preload is built from one file.
 *
 *     header                     its first bytes; zeros up to a page
 *     data_pages x 4096 bytes    page-aligned, so that long runs can be mapped
 *     extents x pages_extent     ascending, not overlapping
 *
 * A page of zeros is an extent without data. The file is complete relative to
 * the snapshot: no chain of differences. It needs no holes, so it can be copied
 * by any program. The header is written last: a file whose writing was cut off
 * has none. Sums find damage and mixtures; they are no defence against who may
 * write the file. Byte order is the host's: a snapshot does not leave it.
 */
#ifndef CARREL_PAGES_H
#define CARREL_PAGES_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define PAGES_MAGIC "carrelpg"
#define PAGES_ZERO (1u << 31) /* in pages_extent.count */

enum {
	PAGES_VERSION = 1,
	PAGES_PAGE = 4096,
	/* Pages of the snapshot's memory that tell it from another: two boots differ
	 * in most pages, and each costs one small read at save and at resume. */
	PAGES_SAMPLES = 256,
	/* Device state is 43-66 KB; QEMU could be made to write without end. */
	PAGES_STATE_MAX = 16 * 1024 * 1024,
};

struct pages_extent {
	uint32_t page;  /* of guest memory */
	uint32_t count; /* pages, PAGES_ZERO when all are zero */
};

struct pages_header {
	char magic[8];
	uint32_t version;
	uint32_t page_bytes;
	uint64_t ram_bytes;
	uint64_t ram_sum;                /* of the snapshot's memory file, pages_ram_sum() */
	uint64_t state_bytes, state_sum; /* of the device state saved with it */
	uint64_t data_pages, zero_pages;
	uint64_t extents;
	uint64_t table_sum, data_sum;
	uint64_t file_bytes;
	uint64_t header_sum; /* of the fields above */
};

static_assert(sizeof(struct pages_extent) == 8, "fixed file layout");
static_assert(sizeof(struct pages_header) == 104, "fixed file layout");

/* --- sums --- */

enum { SUM_LANES = 4, SUM_BLOCK = SUM_LANES * 8 };

/* Four lanes, because one multiplication has to wait for the one before. */
struct sum {
	uint64_t lane[SUM_LANES];
	uint64_t bytes;
};

static inline void sum_begin(struct sum *s)
{
	*s = (struct sum){ .lane = { 1, 2, 3, 4 } };
}

static inline uint64_t sum_mix(uint64_t lane, uint64_t word)
{
	return (((lane << 29) | (lane >> 35)) ^ word) * 0x9e3779b97f4a7c15u;
}

static inline void sum_block(struct sum *s, const unsigned char *p)
{
	for (int i = 0; i < SUM_LANES; i++) {
		uint64_t word;

		memcpy(&word, p + 8 * i, 8);
		s->lane[i] = sum_mix(s->lane[i], word);
	}
}

/* All but the last call with a multiple of SUM_BLOCK. */
static inline void sum_add(struct sum *s, const void *bytes, size_t n)
{
	unsigned char last[SUM_BLOCK] = { 0 };
	const unsigned char *p = bytes;

	s->bytes += n;
	for (; n >= SUM_BLOCK; p += SUM_BLOCK, n -= SUM_BLOCK)
		sum_block(s, p);
	if (n > 0) {
		memcpy(last, p, n);
		sum_block(s, last);
	}
}

static inline uint64_t sum_end(const struct sum *s)
{
	uint64_t sum = s->bytes;

	for (int i = 0; i < SUM_LANES; i++)
		sum = sum_mix(sum ^ (sum >> 32), s->lane[i]);
	return sum ^ (sum >> 29);
}

static inline uint64_t sum_of(const void *bytes, size_t n)
{
	struct sum s;

	sum_begin(&s);
	sum_add(&s, bytes, n);
	return sum_end(&s);
}

/* --- files --- */

/* All n bytes; -EIO when the file ends before. */
static inline int pages_read(int fd, void *ret, size_t n, uint64_t offset)
{
	char *at = ret;

	while (n > 0) {
		ssize_t got = pread(fd, at, n, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		at += got;
		offset += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

static inline int pages_ram_sum(int fd, uint64_t ram_bytes, uint64_t *ret)
{
	uint64_t pages = ram_bytes / PAGES_PAGE;
	unsigned char page[PAGES_PAGE];
	struct sum s;

	sum_begin(&s);
	for (uint64_t i = 0; i < PAGES_SAMPLES; i++) {
		int err = pages_read(fd, page, sizeof(page), i * pages / PAGES_SAMPLES * PAGES_PAGE);

		if (err)
			return err;
		sum_add(&s, page, sizeof(page));
	}
	*ret = sum_end(&s);
	return 0;
}

/* The whole file; -EFBIG above max. */
static inline int pages_file_sum(int fd, uint64_t max, uint64_t *ret_bytes, uint64_t *ret)
{
	unsigned char block[PAGES_PAGE];
	uint64_t bytes = 0;
	struct sum s;
	ssize_t n;

	sum_begin(&s);
	/* Only the last read of a regular file is short. */
	while ((n = pread(fd, block, sizeof(block), (off_t)bytes)) > 0) {
		bytes += (uint64_t)n;
		if (bytes > max)
			return -EFBIG;
		sum_add(&s, block, (size_t)n);
		if (n < (ssize_t)sizeof(block))
			break;
	}
	if (n < 0)
		return -errno;
	*ret_bytes = bytes;
	*ret = sum_end(&s);
	return 0;
}

/* --- checks --- */

static inline uint64_t pages_table_offset(const struct pages_header *h)
{
	return (1 + h->data_pages) * PAGES_PAGE;
}

static inline uint64_t pages_header_sum(const struct pages_header *h)
{
	return sum_of(h, offsetof(struct pages_header, header_sum));
}

/* NULL, or what is wrong with it as a sentence. ram_bytes: of the machine. */
static inline const char *pages_header_check(const struct pages_header *h, uint64_t file_bytes,
					     uint64_t ram_bytes)
{
	if (memcmp(h->magic, PAGES_MAGIC, sizeof(h->magic)) != 0)
		return "The saved memory is incomplete, or no saved memory at all.";
	if (h->version != PAGES_VERSION || h->page_bytes != PAGES_PAGE)
		return "The saved memory is of another version of Carrel.";
	if (h->header_sum != pages_header_sum(h))
		return "The saved memory is damaged (its head).";
	if (h->ram_bytes != ram_bytes)
		return "The saved memory is of a machine of another size.";
	if (h->data_pages > ram_bytes / PAGES_PAGE || h->extents > ram_bytes / PAGES_PAGE ||
	    h->file_bytes != pages_table_offset(h) + h->extents * sizeof(struct pages_extent))
		return "The saved memory is damaged (its counts).";
	if (h->file_bytes != file_bytes)
		return "The saved memory is cut off, or longer than it was written.";
	return NULL;
}

static inline const char *pages_table_check(const struct pages_header *h, const struct pages_extent *table)
{
	uint64_t next = 0, data = 0, zero = 0;

	if (sum_of(table, h->extents * sizeof(*table)) != h->table_sum)
		return "The saved memory is damaged (its table).";
	for (uint64_t i = 0; i < h->extents; i++) {
		uint32_t count = table[i].count & ~PAGES_ZERO;

		if (count == 0 || table[i].page < next ||
		    (uint64_t)table[i].page + count > h->ram_bytes / PAGES_PAGE)
			return "The saved memory is damaged (an extent).";
		next = (uint64_t)table[i].page + count;
		if (table[i].count & PAGES_ZERO)
			zero += count;
		else
			data += count;
	}
	if (data != h->data_pages || zero != h->zero_pages)
		return "The saved memory is damaged (its sums of pages).";
	return NULL;
}

static inline bool pages_is_zero(const void *page)
{
	const char *p = page;
	uint64_t first;

	memcpy(&first, p, sizeof(first));
	return first == 0 && memcmp(p, p + 8, PAGES_PAGE - 8) == 0;
}

#endif
