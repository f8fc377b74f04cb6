/* Loads a paused machine's private pages over the mapping of its snapshot's
 * memory, before QEMU runs. Part of preload.c, which is built from one file.
 *
 * Long runs are mapped from the file, privately: they cost nothing before they
 * are touched, and copies of one machine share them. Short runs are read. The
 * first page is never mapped, so that the snapshot's mapping always has its
 * beginning there, by which carrel-spawn finds guest memory. Afterwards the
 * file is closed: it may be replaced or removed, but not written to.
 *
 * Whatever is not as the header says ends QEMU with a sentence on stderr.
 */
#ifndef CARREL_PRELOAD_LOAD_H
#define CARREL_PRELOAD_LOAD_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/pages.h"

enum {
	/* From here on a mapping and its later faults are cheaper than a read. */
	LOAD_MAP_PAGES = 16,
	/* Each may part a mapping in three; the kernel's vm.max_map_count is 65530. */
	LOAD_MAPPINGS_MAX = 8192,
};

struct load {
	char *ram;
	int fd;
	struct pages_header header;
	struct pages_extent *table;
	unsigned mappings;
};

static void __attribute__((noreturn)) load_fail(const char *sentence)
{
	fprintf(stderr, "%s\n", sentence);
	_exit(1);
}

static void __attribute__((noreturn)) load_fail_errno(const char *what, int err)
{
	fprintf(stderr, "The saved memory cannot be %s: %s.\n", what, strerror(-err));
	_exit(1);
}

static void load_header(struct load *l, size_t ram_bytes)
{
	struct stat st;
	const char *wrong;
	int err = fstat(l->fd, &st) != 0 ? -errno : 0;

	if (!err && st.st_size < (off_t)sizeof(l->header))
		load_fail("The saved memory is cut off.");
	if (!err)
		err = pages_read(l->fd, &l->header, sizeof(l->header), 0);
	if (err)
		load_fail_errno("read", err);
	wrong = pages_header_check(&l->header, (uint64_t)st.st_size, ram_bytes);
	if (wrong)
		load_fail(wrong);
}

static void load_table(struct load *l)
{
	size_t bytes = l->header.extents * sizeof(*l->table);
	const char *wrong;
	int err;

	l->table = malloc(bytes + 1);
	err = l->table ? pages_read(l->fd, l->table, bytes, pages_table_offset(&l->header)) : -ENOMEM;
	if (err)
		load_fail_errno("read", err);
	wrong = pages_table_check(&l->header, l->table);
	if (wrong)
		load_fail(wrong);
}

/* Memory, snapshot and device state must be of one moment. */
static void load_belongs(const struct load *l, int ram_fd, int state_fd)
{
	uint64_t ram_sum, state_bytes, state_sum;
	int err = pages_ram_sum(ram_fd, l->header.ram_bytes, &ram_sum);

	if (err)
		load_fail_errno("compared with its snapshot", err);
	if (ram_sum != l->header.ram_sum)
		load_fail("The saved memory belongs to another snapshot than the one given.");
	err = pages_file_sum(state_fd, PAGES_STATE_MAX, &state_bytes, &state_sum);
	if (err)
		load_fail_errno("compared with its device state", err);
	if (state_bytes != l->header.state_bytes || state_sum != l->header.state_sum)
		load_fail("The device state is damaged, or was not saved together with this memory.");
}

/* NULL fd: zeros. 0 when it is mapped. */
static int load_map(struct load *l, char *at, size_t bytes, int fd, uint64_t offset)
{
	int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);

	if (bytes < LOAD_MAP_PAGES * PAGES_PAGE || l->mappings >= LOAD_MAPPINGS_MAX || at == l->ram)
		return -1;
	if (syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, flags, fd, offset) != (long)at)
		return -1;
	l->mappings++;
	return 0;
}

static void load_zero(struct load *l, char *at, size_t bytes)
{
	if (load_map(l, at, bytes, -1, 0) == 0)
		return;
	/* Most lie where the snapshot has zeros, too. */
	for (size_t i = 0; i < bytes; i += PAGES_PAGE)
		if (!pages_is_zero(at + i))
			memset(at + i, 0, PAGES_PAGE);
}

static void load_data(struct load *l, char *at, size_t bytes, uint64_t offset)
{
	size_t first = at == l->ram ? PAGES_PAGE : 0;
	int err = pages_read(l->fd, at, first, offset);

	if (!err && load_map(l, at + first, bytes - first, l->fd, offset + first) != 0)
		err = pages_read(l->fd, at + first, bytes - first, offset + first);
	if (err)
		load_fail_errno("read", err);
}

static void load_pages(void *ram, size_t ram_bytes, int ram_fd, int state_fd, int pages_fd)
{
	struct load l = { .ram = ram, .fd = pages_fd };
	uint64_t offset = PAGES_PAGE;

	load_header(&l, ram_bytes);
	load_table(&l);
	load_belongs(&l, ram_fd, state_fd);
	for (uint64_t i = 0; i < l.header.extents; i++) {
		size_t bytes = (size_t)(l.table[i].count & ~PAGES_ZERO) * PAGES_PAGE;
		char *at = l.ram + (size_t)l.table[i].page * PAGES_PAGE;

		if (l.table[i].count & PAGES_ZERO) {
			load_zero(&l, at, bytes);
			continue;
		}
		load_data(&l, at, bytes, offset);
		offset += bytes;
	}
	free(l.table);
	close(pages_fd);
}

#endif
