#include "pages_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "vmm/pages.h"

_Static_assert((unsigned long long)PAGES_PAGE == MEMORY_PAGE, "one kind of page");

struct writer {
	const struct guest_memory *memory;
	int fd;
	struct pages_header header;
	struct pages_extent *table; /* room for an extent a page, the most there can be */
	struct sum data_sum;
};

/* CLEAN, or what kind of extent it belongs to. */
enum page_kind { PAGE_CLEAN, PAGE_DATA, PAGE_ZEROS };

static enum page_kind kind_of(const struct guest_memory *m, uint64_t page)
{
	if (!memory_is_dirty(m, page))
		return PAGE_CLEAN;
	return pages_is_zero(m->base + page * MEMORY_PAGE) ? PAGE_ZEROS : PAGE_DATA;
}

static int extent_write(struct writer *w, uint64_t page, uint64_t count, enum page_kind kind)
{
	const uint8_t *from = w->memory->base + page * MEMORY_PAGE;
	uint32_t zero = kind == PAGE_ZEROS ? PAGES_ZERO : 0;
	int err = 0;

	w->table[w->header.extents++] = (struct pages_extent){ (uint32_t)page, (uint32_t)count | zero };
	if (zero) {
		w->header.zero_pages += count;
		return 0;
	}
	err = file_write(w->fd, from, count * MEMORY_PAGE, (1 + w->header.data_pages) * MEMORY_PAGE);
	sum_add(&w->data_sum, from, count * MEMORY_PAGE);
	w->header.data_pages += count;
	return err;
}

static int extents_write(struct writer *w)
{
	uint64_t pages = w->memory->size / MEMORY_PAGE, at = 0, start;
	enum page_kind kind;
	int err = 0;

	while (at < pages && !err) {
		kind = kind_of(w->memory, at);
		start = at++;
		if (kind == PAGE_CLEAN)
			continue;
		while (at < pages && kind_of(w->memory, at) == kind)
			at++;
		err = extent_write(w, start, at - start, kind);
	}
	return err;
}

static int header_write(struct writer *w, int memory_fd, const struct state *s)
{
	struct pages_header *h = &w->header;
	size_t table_size = h->extents * sizeof(*w->table);
	int err = file_write(w->fd, w->table, table_size, pages_table_offset(h));

	if (!err)
		err = pages_ram_sum(memory_fd, w->memory->size, &h->ram_sum);
	if (err)
		return err;
	memcpy(h->magic, PAGES_MAGIC, sizeof(h->magic));
	h->version = PAGES_VERSION;
	h->page_bytes = PAGES_PAGE;
	h->ram_bytes = w->memory->size;
	h->state_bytes = s->header.size;
	h->state_sum = sum_of(s, s->header.size);
	h->table_sum = sum_of(w->table, table_size);
	h->data_sum = sum_end(&w->data_sum);
	h->file_bytes = pages_table_offset(h) + table_size;
	h->header_sum = pages_header_sum(h);
	return file_write(w->fd, h, sizeof(*h), 0);
}

int pages_file_save(const struct guest_memory *m, int memory_fd, const struct state *s, int fd,
		    struct problem *p)
{
	struct writer w = { .memory = m, .fd = fd };
	int err;

	w.table = malloc(m->size / MEMORY_PAGE * sizeof(*w.table));
	if (!w.table)
		return problem_set(p, -ENOMEM, "the table of changed pages");
	sum_begin(&w.data_sum);
	err = ftruncate(fd, 0) != 0 ? -errno : extents_write(&w);
	if (!err)
		err = header_write(&w, memory_fd, s);
	free(w.table);
	return err ? problem_set(p, err, "the file of changed pages") : 0;
}

static int refuse(struct problem *p, const char *sentence)
{
	return problem_set(p, -EINVAL, "%s", sentence);
}

static int header_read(const struct guest_memory *m, int memory_fd, const struct state *s, int fd,
		       struct pages_header *ret, struct problem *p)
{
	const char *sentence;
	uint64_t ram_sum;
	struct stat st;
	int err = fstat(fd, &st) != 0 ? -errno : 0;

	if (!err && st.st_size < (off_t)sizeof(*ret))
		return refuse(p, "The saved memory is cut off.");
	if (!err)
		err = pages_read(fd, ret, sizeof(*ret), 0);
	if (err)
		return problem_set(p, err, "the file of changed pages cannot be read");
	sentence = pages_header_check(ret, (uint64_t)st.st_size, m->size);
	if (sentence)
		return refuse(p, sentence);
	err = pages_ram_sum(memory_fd, m->size, &ram_sum);
	if (err)
		return problem_set(p, err, "the memory file cannot be read");
	if (ret->ram_sum != ram_sum)
		return refuse(p, "The saved memory belongs to another snapshot than the one given.");
	if (ret->state_bytes != s->header.size || ret->state_sum != sum_of(s, s->header.size))
		return refuse(p, "The device state is damaged, or was not saved together with this memory.");
	return 0;
}

static int table_apply(const struct guest_memory *m, int fd, const struct pages_header *h,
		       const struct pages_extent *table)
{
	uint64_t from = MEMORY_PAGE;
	int err = 0;

	for (uint64_t i = 0; i < h->extents && !err; i++) {
		uint64_t count = table[i].count & ~PAGES_ZERO, at = (uint64_t)table[i].page * MEMORY_PAGE;

		memory_mark_pages(m, table[i].page, count);
		if (table[i].count & PAGES_ZERO) {
			memset(m->base + at, 0, count * MEMORY_PAGE);
			continue;
		}
		err = pages_read(fd, m->base + at, count * MEMORY_PAGE, from);
		from += count * MEMORY_PAGE;
	}
	return err;
}

int pages_file_load(const struct guest_memory *m, int memory_fd, const struct state *s, int fd,
		    struct problem *p)
{
	struct pages_header h;
	struct pages_extent *table;
	const char *sentence;
	int err = header_read(m, memory_fd, s, fd, &h, p);

	if (err)
		return err;
	table = malloc(h.extents * sizeof(*table) + 1);
	if (!table)
		return problem_set(p, -ENOMEM, "the table of changed pages");
	err = pages_read(fd, table, h.extents * sizeof(*table), pages_table_offset(&h));
	sentence = err ? NULL : pages_table_check(&h, table);
	if (!err && !sentence)
		err = table_apply(m, fd, &h, table);
	free(table);
	if (sentence)
		return refuse(p, sentence);
	return err ? problem_set(p, err, "the file of changed pages cannot be read") : 0;
}
