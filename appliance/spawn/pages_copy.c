#include "pages_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "pages_maps.h"
#include "vmm/pages.h"

/* Of an entry of /proc/PID/pagemap. */
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SWAPPED (1ull << 62)
#define PAGEMAP_FILE (1ull << 61)

struct copy {
	const struct pages_copy *job;
	struct pages_maps maps;
	int mem_fd, pagemap_fd;
	struct pages_header header;
	struct pages_extent *table;
	size_t table_room;
	struct sum data_sum;
	uint64_t data_written; /* bytes */
	size_t used;           /* pages in out */
	unsigned char (*out)[PAGES_PAGE];
};

static int fail(char *ret_message, int err, const char *what)
{
	snprintf(ret_message, SPAWN_MESSAGE_MAX, "Cannot %s: %s.", what, strerror(-err));
	return err;
}

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Version 1 has no event for it; looking is what makes it settle there. */
static int wait_frozen(const struct cgroup *cg)
{
	const uint64_t until = clock_ms() + PAGES_FREEZE_MS;
	bool frozen = false;
	int err;

	for (;;) {
		err = cgroup_frozen(cg, &frozen);
		if (err || frozen)
			return err;
		if (clock_ms() >= until)
			return -ETIMEDOUT;
		poll(NULL, 0, 1);
	}
}

/* Descriptors hold the process they were opened for; asked twice, its number
 * cannot have gone to another one in between. */
static int process_open(struct copy *c)
{
	char path[32];
	pid_t pid, again;
	int proc, err;

	err = cgroup_guest_pid(&c->job->cgroup, &pid);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return -errno;
	c->mem_fd = openat(proc, "mem", O_RDONLY | O_CLOEXEC);
	c->pagemap_fd = openat(proc, "pagemap", O_RDONLY | O_CLOEXEC);
	err = c->mem_fd < 0 || c->pagemap_fd < 0 ? -errno : 0;
	if (!err)
		err = pages_maps_read(proc, c->job->ram_dev, c->job->ram_ino, &c->maps);
	close(proc);
	if (!err)
		err = cgroup_guest_pid(&c->job->cgroup, &again);
	return err ? err : again == pid ? 0 : -ESRCH;
}

static int drop_rights(const struct pages_copy *job)
{
	if (job->uid == 0)
		return 0;
	if (setgroups(0, NULL) != 0 || setresgid(job->gid, job->gid, job->gid) != 0 ||
	    setresuid(job->uid, job->uid, job->uid) != 0)
		return -errno;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? -errno : 0;
}

static int write_all(const struct copy *c, const void *bytes, size_t n, uint64_t offset)
{
	const char *at = bytes;

	if (getppid() != c->job->parent)
		return -ECANCELED;
	while (n > 0) {
		ssize_t done = pwrite(c->job->pages_fd, at, n, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? -errno : -ENOSPC;
		at += done;
		offset += (uint64_t)done;
		n -= (size_t)done;
	}
	return 0;
}

static int out_flush(struct copy *c)
{
	size_t bytes = c->used * PAGES_PAGE;
	int err = write_all(c, c->out, bytes, PAGES_PAGE + c->data_written);

	if (err)
		return err;
	sum_add(&c->data_sum, c->out, bytes);
	c->data_written += bytes;
	c->used = 0;
	return 0;
}

static int extent_add(struct copy *c, uint32_t page, uint32_t count, uint32_t zero)
{
	struct pages_extent *last = c->header.extents ? &c->table[c->header.extents - 1] : NULL;

	if (zero)
		c->header.zero_pages += count;
	else
		c->header.data_pages += count;
	if (last && (last->count & PAGES_ZERO) == zero && last->page + (last->count & ~PAGES_ZERO) == page) {
		last->count += count;
		return 0;
	}
	if (c->header.extents == c->table_room) {
		size_t room = c->table_room ? 2 * c->table_room : 4096;
		struct pages_extent *table = realloc(c->table, room * sizeof(*table));

		if (!table)
			return -ENOMEM;
		c->table = table;
		c->table_room = room;
	}
	c->table[c->header.extents++] = (struct pages_extent){ page, count | zero };
	return 0;
}

/* Read in place; pages of zeros leave gaps that the ones after them fill. */
static int span_copy(struct copy *c, uint64_t at, size_t count)
{
	uint32_t page = (uint32_t)((at - c->maps.base) / PAGES_PAGE);
	size_t first = c->used;
	int err = pages_read(c->mem_fd, c->out[first], count * PAGES_PAGE, at);

	for (size_t i = 0; !err && i < count; i++) {
		if (pages_is_zero(c->out[first + i])) {
			err = extent_add(c, page + (uint32_t)i, 1, PAGES_ZERO);
			continue;
		}
		err = extent_add(c, page + (uint32_t)i, 1, 0);
		if (c->used != first + i)
			memcpy(c->out[c->used], c->out[first + i], PAGES_PAGE);
		c->used++;
	}
	return !err && c->used == PAGES_CHUNK ? out_flush(c) : err;
}

/* Private pages at an address. */
static int run_copy(struct copy *c, uint64_t at, size_t count)
{
	int err = 0;

	while (!err && count > 0) {
		size_t room = PAGES_CHUNK - c->used, n = count < room ? count : room;

		err = span_copy(c, at, n);
		at += n * PAGES_PAGE;
		count -= n;
	}
	return err;
}

enum page_is { PAGE_CLEAN, PAGE_DATA, PAGE_ZERO };

static enum page_is page_is(enum pages_kind kind, uint64_t entry)
{
	bool own = (entry & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)) && !(entry & PAGEMAP_FILE);

	switch (kind) {
	case PAGES_OF_SNAPSHOT:
		return own ? PAGE_DATA : PAGE_CLEAN;
	case PAGES_OF_NOTHING:
		return own ? PAGE_DATA : PAGE_ZERO;
	case PAGES_OF_FILE:
		break;
	}
	return PAGE_DATA;
}

static int chunk_copy(struct copy *c, enum pages_kind kind, uint64_t at, size_t count)
{
	uint64_t entries[PAGES_CHUNK];
	int err = pages_read(c->pagemap_fd, entries, count * sizeof(*entries),
			     at / PAGES_PAGE * sizeof(*entries));

	for (size_t i = 0, end; !err && i < count; i = end) {
		enum page_is is = page_is(kind, entries[i]);
		uint64_t from = at + i * PAGES_PAGE;

		for (end = i + 1; end < count && page_is(kind, entries[end]) == is; end++)
			;
		if (is == PAGE_DATA)
			err = run_copy(c, from, end - i);
		else if (is == PAGE_ZERO)
			err = extent_add(c, (uint32_t)((from - c->maps.base) / PAGES_PAGE),
					 (uint32_t)(end - i), PAGES_ZERO);
	}
	return err;
}

static int parts_copy(struct copy *c)
{
	int err = 0;

	for (size_t i = 0; !err && i < c->maps.count; i++) {
		const struct pages_part *part = &c->maps.parts[i];

		for (uint64_t at = part->start; !err && at < part->end; at += PAGES_CHUNK * PAGES_PAGE) {
			uint64_t left = (part->end - at) / PAGES_PAGE;

			err = chunk_copy(c, part->kind, at, left < PAGES_CHUNK ? left : PAGES_CHUNK);
		}
	}
	return err ? err : out_flush(c);
}

static int file_finish(struct copy *c)
{
	struct pages_header *h = &c->header;
	size_t bytes = h->extents * sizeof(*c->table);
	int err;

	memcpy(h->magic, PAGES_MAGIC, sizeof(h->magic));
	h->version = PAGES_VERSION;
	h->page_bytes = PAGES_PAGE;
	h->ram_bytes = c->maps.bytes;
	h->table_sum = sum_of(c->table, bytes);
	h->data_sum = sum_end(&c->data_sum);
	h->file_bytes = pages_table_offset(h) + bytes;
	h->header_sum = pages_header_sum(h);
	err = write_all(c, c->table, bytes, pages_table_offset(h));
	return err ? err : write_all(c, h, sizeof(*h), 0);
}

static int copy_run(struct copy *c, char *ret_message)
{
	struct pages_header *h = &c->header;
	int err = wait_frozen(&c->job->cgroup);

	if (err)
		return fail(ret_message, err, "hold the sandbox still");
	err = process_open(c);
	if (err == -EBADMSG)
		return fail(ret_message, err, "find the sandbox's memory where it was put");
	if (err)
		return fail(ret_message, err, "read the sandbox's memory");
	err = drop_rights(c->job);
	if (err)
		return fail(ret_message, err, "give up the rights of root");
	err = pages_ram_sum(c->maps.ram_fd, c->maps.bytes, &h->ram_sum);
	if (err)
		return fail(ret_message, err, "read the snapshot's memory");
	err = pages_file_sum(c->job->state_fd, PAGES_STATE_MAX, &h->state_bytes, &h->state_sum);
	if (err)
		return fail(ret_message, err, "read the device state");
	err = ftruncate(c->job->pages_fd, 0) != 0 ? -errno : parts_copy(c);
	if (!err)
		err = file_finish(c);
	return err ? fail(ret_message, err, "save the sandbox's memory") : 0;
}

int pages_copy(const struct pages_copy *job, char *ret_message)
{
	struct copy c = { .job = job, .maps = { .ram_fd = -1 }, .mem_fd = -1, .pagemap_fd = -1 };
	int err;

	sum_begin(&c.data_sum);
	c.out = malloc(PAGES_CHUNK * PAGES_PAGE);
	err = c.out ? copy_run(&c, ret_message) : fail(ret_message, -ENOMEM, "save the sandbox's memory");
	if (err && ftruncate(job->pages_fd, 0) != 0)
		fprintf(stderr, "carrel-spawn: half a file of saved memory cannot be emptied: %s\n",
			strerror(errno));
	pages_maps_free(&c.maps);
	free(c.table);
	free(c.out);
	if (c.mem_fd >= 0)
		close(c.mem_fd);
	if (c.pagemap_fd >= 0)
		close(c.pagemap_fd);
	return err;
}
