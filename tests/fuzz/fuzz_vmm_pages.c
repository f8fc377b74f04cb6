/* FUZZ: vmm/snapshot/pages_file.c vmm/snapshot/file.c vmm/machine/memory.c vmm/machine/problem.c LIBS: */
/* Any bytes as a clone's changed pages: refused, or every page that came is marked. First bytes: how many
 * data pages and extents the head speaks of; it is given right sums, which no fuzzer would guess. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/pages.h"
#include "vmm/snapshot/pages_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAGES_MOST = 8, EXTENTS_MOST = 64 };

static struct guest_memory memory;
static struct state *state;
static int memory_fd = -1, fd;
static uint64_t ram_sum, state_sum; /* the same for every input */

static void setup(void)
{
	memory_fd = memfd_create("memory", MFD_CLOEXEC);
	fd = memfd_create("pages", MFD_CLOEXEC);
	state = calloc(1, sizeof(*state));
	if (memory_fd < 0 || fd < 0 || !state || ftruncate(memory_fd, MEMORY_MIN) != 0 ||
	    memory_map(&memory, memory_fd, MEMORY_MIN) != 0 || memory_track(&memory) != 0)
		abort();
	state->header.size = sizeof(*state);
	state_sum = sum_of(state, sizeof(*state));
	if (pages_ram_sum(memory_fd, MEMORY_MIN, &ram_sum) != 0)
		abort();
}

static void head_write(const struct pages_extent *table, uint64_t extents, uint64_t data_pages)
{
	struct pages_header h = { .version = PAGES_VERSION,
				  .page_bytes = PAGES_PAGE,
				  .ram_bytes = MEMORY_MIN,
				  .state_bytes = state->header.size,
				  .ram_sum = ram_sum,
				  .state_sum = state_sum,
				  .data_pages = data_pages,
				  .extents = extents };

	memcpy(h.magic, PAGES_MAGIC, sizeof(h.magic));
	for (uint64_t i = 0; i < extents; i++)
		h.zero_pages += table[i].count & PAGES_ZERO ? table[i].count & ~PAGES_ZERO : 0;
	h.table_sum = sum_of(table, extents * sizeof(*table));
	h.file_bytes = pages_table_offset(&h) + extents * sizeof(*table);
	h.header_sum = pages_header_sum(&h);
	if (pwrite(fd, table, extents * sizeof(*table), (off_t)pages_table_offset(&h)) < 0 ||
	    pwrite(fd, &h, sizeof(h), 0) != sizeof(h))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pages_extent table[EXTENTS_MOST] = { { 0 } };
	uint64_t extents, pages;

	if (size < 2)
		return 0;
	if (memory_fd < 0)
		setup();
	extents = data[0] % EXTENTS_MOST;
	pages = data[1] % PAGES_MOST;
	memcpy(table, data + 2, size - 2 < sizeof(table) ? size - 2 : sizeof(table));
	if (ftruncate(fd, 0) != 0 || ftruncate(fd, (off_t)((1 + pages) * PAGES_PAGE)) != 0)
		abort();
	head_write(table, extents, pages);
	if (pages_file_load(&memory, memory_fd, state, fd, NULL) == 0)
		for (uint64_t i = 0; i < extents; i++)
			if (!memory_is_dirty(&memory, table[i].page))
				abort();
	return 0;
}
