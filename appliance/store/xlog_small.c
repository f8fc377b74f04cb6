/* A short log needs no file: its lines stay in memory, and go with their end
 * into the execution's row. What gets longer, or has to be safe before its end,
 * moves into a file of its own. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spool.h"
#include "xlog_inner.h"

/* Under the lock where readers may be about. */
static int small_put(struct xlog *log, const char *lines, size_t len)
{
	if (!log->small)
		log->small = malloc(XLOG_SMALL_MAX);
	if (!log->small)
		return -ENOMEM;
	memcpy(log->small + log->size, lines, len);
	return 0;
}

static void file_close(struct xlog *log, int dir_fd, int fd)
{
	if (fd >= 0)
		close(fd);
	if (dir_fd < 0)
		return;
	(void)!unlinkat(dir_fd, "events", 0);
	close(dir_fd);
	/* Outputs may lie there already; then it stays. */
	spool_dir_remove(log->state_dir, log->id);
}

/* On failure the log is as it was. */
int xlog_spill(struct xlog *log)
{
	int dir_fd = spool_dir_open(log->state_dir, log->id, true), fd, err = 0;

	if (dir_fd < 0)
		return dir_fd;
	/* One that is there already is what a crash left: no row names it. */
	fd = openat(dir_fd, "events", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	err = fd < 0 ? -errno : pwrite_all(fd, log->small, log->size, 0);
	if (err) {
		file_close(log, dir_fd, fd);
		return err;
	}
	log->dirty = true;
	pthread_mutex_lock(&log->lock);
	log->dir_fd = dir_fd;
	log->fd = fd;
	free(log->small);
	log->small = NULL;
	pthread_mutex_unlock(&log->lock);
	return 0;
}

int xlog_write(struct xlog *log, const char *lines, size_t len)
{
	int err = 0;

	if (log->fd < 0 && log->size + len <= XLOG_SMALL_MAX) {
		pthread_mutex_lock(&log->lock);
		err = small_put(log, lines, len);
		pthread_mutex_unlock(&log->lock);
		return err;
	}
	if (log->fd < 0)
		err = xlog_spill(log);
	if (err)
		return err;
	err = pwrite_all(log->fd, lines, len, log->size);
	/* Best effort: what lies past size is not read, and the next append overwrites it. */
	if (err)
		(void)!ftruncate(log->fd, (off_t)log->size);
	log->dirty = true;
	return err;
}

int xlog_small_take(struct xlog *log, const char *lines, size_t len)
{
	const char *end;
	uint64_t count = 0;

	if (len != log->size || len > XLOG_SMALL_MAX)
		return -EUCLEAN;
	for (end = lines; end < lines + len && (end = memchr(end, '\n', lines + len - end)); end++)
		count++;
	if (count != log->last_seq || (len > 0 && lines[len - 1] != '\n'))
		return -EUCLEAN;
	log->size = 0;
	small_put(log, lines, len);
	log->size = len;
	return log->small ? xlog_add_mark(log, 0, 0) : -ENOMEM;
}

const char *xlog_small(struct xlog *log, size_t *ret_len)
{
	*ret_len = log->size;
	return log->fd < 0 ? log->small : NULL;
}
