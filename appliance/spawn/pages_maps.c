#include "pages_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pages_copy.h"

struct vma {
	uint64_t start, end, offset, ino;
	char perms[5];
	int of_ram;
};

struct vmas {
	struct vma *list;
	size_t count, room;
};

static int vmas_add(struct vmas *v, const struct vma *vma)
{
	if (v->count == PAGES_MAPPINGS_MAX)
		return -E2BIG;
	if (v->count == v->room) {
		size_t room = v->room ? 2 * v->room : 1024;
		struct vma *list = realloc(v->list, room * sizeof(*list));

		if (!list)
			return -ENOMEM;
		v->list = list;
		v->room = room;
	}
	v->list[v->count++] = *vma;
	return 0;
}

/* The file behind a mapping, as the kernel knows it: the numbers in maps are not
 * those of stat() on every file system. */
static int vma_is_of(int map_files, const struct vma *vma, dev_t dev, ino_t ino)
{
	char name[64];
	struct stat st;

	if (vma->ino != ino)
		return 0;
	snprintf(name, sizeof(name), "%" PRIx64 "-%" PRIx64, vma->start, vma->end);
	if (fstatat(map_files, name, &st, 0) != 0)
		return -errno;
	return st.st_dev == dev && st.st_ino == ino;
}

static int vmas_parse(FILE *maps, int map_files, dev_t dev, ino_t ino, struct vmas *ret)
{
	char *line = NULL;
	size_t size = 0;
	int err = 0;

	while (!err && getline(&line, &size, maps) > 0) {
		struct vma vma = { 0 };

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64, &vma.start,
			   &vma.end, vma.perms, &vma.offset, &vma.ino) != 5) {
			err = -EBADMSG;
			break;
		}
		vma.of_ram = vma_is_of(map_files, &vma, dev, ino);
		err = vma.of_ram < 0 ? vma.of_ram : vmas_add(ret, &vma);
	}
	free(line);
	return err;
}

/* The one mapping of the file's beginning, and the file. */
static int base_find(int map_files, const struct vmas *v, struct pages_maps *m)
{
	const struct vma *first = NULL;
	char name[64];
	struct stat st;

	for (size_t i = 0; i < v->count; i++) {
		if (!v->list[i].of_ram || v->list[i].offset != 0)
			continue;
		if (first)
			return -EBADMSG;
		first = &v->list[i];
	}
	if (!first)
		return -EBADMSG;
	snprintf(name, sizeof(name), "%" PRIx64 "-%" PRIx64, first->start, first->end);
	m->ram_fd = openat(map_files, name, O_RDONLY | O_CLOEXEC);
	if (m->ram_fd < 0 || fstat(m->ram_fd, &st) != 0)
		return -errno;
	m->base = first->start;
	m->bytes = (uint64_t)st.st_size;
	return 0;
}

static int part_of(const struct vma *vma, const struct pages_maps *m, struct pages_part *ret)
{
	uint64_t end = m->base + m->bytes;

	/* Read and write, and private: "rw-p" or with x. */
	if (vma->perms[0] != 'r' || vma->perms[1] != 'w' || vma->perms[3] != 'p')
		return -EBADMSG;
	if (vma->of_ram && vma->start - m->base != vma->offset)
		return -EBADMSG;
	ret->start = vma->start;
	ret->end = vma->end < end ? vma->end : end;
	ret->kind = vma->of_ram ? PAGES_OF_SNAPSHOT : vma->ino ? PAGES_OF_FILE : PAGES_OF_NOTHING;
	return 0;
}

static int parts_collect(const struct vmas *v, struct pages_maps *m)
{
	uint64_t at = m->base, end = m->base + m->bytes;
	int err;

	m->parts = calloc(v->count, sizeof(*m->parts));
	if (!m->parts)
		return -ENOMEM;
	for (size_t i = 0; i < v->count && at < end; i++) {
		if (v->list[i].end <= at)
			continue;
		if (v->list[i].start != at)
			return -EBADMSG;
		err = part_of(&v->list[i], m, &m->parts[m->count]);
		if (err)
			return err;
		at = m->parts[m->count++].end;
	}
	return at == end ? 0 : -EBADMSG;
}

static int maps_fill(int proc, int map_files, dev_t dev, ino_t ino, struct pages_maps *m)
{
	int fd = openat(proc, "maps", O_RDONLY | O_CLOEXEC), err;
	struct vmas v = { 0 };
	FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");

	if (!maps)
		return -errno;
	err = vmas_parse(maps, map_files, dev, ino, &v);
	fclose(maps);
	if (!err)
		err = base_find(map_files, &v, m);
	if (!err)
		err = parts_collect(&v, m);
	free(v.list);
	return err;
}

int pages_maps_read(int proc, dev_t ram_dev, ino_t ram_ino, struct pages_maps *ret)
{
	struct pages_maps m = { .ram_fd = -1 };
	int map_files = openat(proc, "map_files", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;

	if (map_files < 0)
		return -errno;
	err = maps_fill(proc, map_files, ram_dev, ram_ino, &m);
	close(map_files);
	if (err) {
		pages_maps_free(&m);
		return err;
	}
	*ret = m;
	return 0;
}

void pages_maps_free(struct pages_maps *m)
{
	free(m->parts);
	m->parts = NULL;
	if (m->ram_fd >= 0)
		close(m->ram_fd);
	m->ram_fd = -1;
}
