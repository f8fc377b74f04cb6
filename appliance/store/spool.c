#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ids.h"
#include "inner.h"

int pwrite_all(int fd, const void *bytes, size_t len, uint64_t offset)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t n = pwrite(fd, at, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		offset += n;
		len -= n;
	}
	return 0;
}

static int dir_make(const char *path)
{
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

int dir_sync(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = fd < 0 || fsync(fd) < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err;
}

int spool_dir_open(const char *state_dir, const char *execution_id, bool create)
{
	char path[STORE_PATH_MAX];
	int err, fd;

	if (!id_valid(execution_id))
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/spool", state_dir);
	err = create ? dir_make(path) : 0;
	if (err)
		return err;
	snprintf(path, sizeof(path), "%s/spool/%s", state_dir, execution_id);
	err = create ? dir_make(path) : 0;
	if (err)
		return err;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void spool_dir_remove(const char *state_dir, const char *execution_id)
{
	char path[STORE_PATH_MAX];

	snprintf(path, sizeof(path), "%s/spool/%s", state_dir, execution_id);
	(void)!rmdir(path);
}

int spool_open_read(const char *state_dir, const char *execution_id, unsigned n)
{
	char path[STORE_PATH_MAX];
	int fd;

	if (!id_valid(execution_id))
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/spool/%s/%u", state_dir, execution_id, n);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void spool_batch_init(struct spool_batch *b, const char *state_dir)
{
	*b = (struct spool_batch){ .dir = state_dir };
}

/* The file in the batch, opened or made; an index, or a negative errno. */
static int batch_file(struct spool_batch *b, const char *execution_id, unsigned n)
{
	char name[16];
	int dir, fd, err = 0;

	for (unsigned i = 0; i < b->count; i++)
		if (b->files[i].n == n && strcmp(b->files[i].execution_id, execution_id) == 0)
			return (int)i;
	if (b->count == SPOOL_BATCH_MAX)
		err = spool_sync(b);
	if (err)
		return err;
	dir = spool_dir_open(b->dir, execution_id, true);
	if (dir < 0)
		return dir;
	snprintf(name, sizeof(name), "%u", n);
	fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		close(dir);
		dir = -1;
	} else {
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		err = -errno;
	}
	if (fd < 0) {
		close(dir);
		return err;
	}
	b->files[b->count].n = n;
	b->files[b->count].fd = fd;
	b->files[b->count].parent = dir;
	snprintf(b->files[b->count].execution_id, STORE_ID_MAX, "%s", execution_id);
	return (int)b->count++;
}

int spool_write(struct spool_batch *b, const char *execution_id, unsigned n, uint64_t offset,
		const void *bytes, size_t len)
{
	int at = batch_file(b, execution_id, n);

	return at < 0 ? at : pwrite_all(b->files[at].fd, bytes, len, offset);
}

int spool_sync(struct spool_batch *b)
{
	char path[STORE_PATH_MAX];
	bool new_files = false;
	int err = 0;

	for (unsigned i = 0; i < b->count; i++) {
		if (fdatasync(b->files[i].fd) < 0 && !err)
			err = -errno;
		close(b->files[i].fd);
		if (b->files[i].parent < 0)
			continue;
		new_files = true;
		if (fsync(b->files[i].parent) < 0 && !err)
			err = -errno;
		close(b->files[i].parent);
	}
	b->count = 0;
	snprintf(path, sizeof(path), "%s/spool", b->dir);
	if (new_files && !err)
		err = dir_sync(path);
	return err;
}
