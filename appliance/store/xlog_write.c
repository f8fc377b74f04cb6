/* The writer's side of the event log: append, sync, cut, and the hole that
 * keeps a flood within bounds. */
#include "xlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "spool.h"
#include "xlog_inner.h"

int xlog_add_mark(struct xlog *log, uint64_t off, uint64_t seq)
{
	struct xlog_mark *marks;
	size_t size;

	if (log->mark_count > 0 && off < log->marks[log->mark_count - 1].off + XLOG_MARK_EVERY)
		return 0;
	if (log->mark_count == log->mark_size) {
		size = log->mark_size ? log->mark_size * 2 : 16;
		marks = realloc(log->marks, size * sizeof(*marks));
		if (!marks)
			return -ENOMEM;
		log->marks = marks;
		log->mark_size = size;
	}
	log->marks[log->mark_count++] = (struct xlog_mark){ .off = off, .seq = seq };
	return 0;
}

void xlog_wake_locked(struct xlog *log)
{
	for (struct xlog_reader *r = log->readers; r; r = r->next) {
		if (r->signalled)
			continue;
		r->signalled = true;
		eventfd_write(r->event_fd, 1);
	}
}

static int lines_check(const struct xlog *log, const char *lines, size_t len, uint64_t last_seq)
{
	uint64_t count = 0;

	for (size_t at = 0; at < len; count++) {
		const char *end = memchr(lines + at, '\n', len - at);

		if (!end)
			return -EBADMSG;
		if (end - (lines + at) > XLOG_LINE_MAX)
			return -EMSGSIZE;
		at = end + 1 - lines;
	}
	return log->last_seq + count == last_seq ? 0 : -EBADMSG;
}

static uint64_t slowest_reader(const struct xlog *log)
{
	uint64_t least = log->size;

	for (struct xlog_reader *r = log->readers; r; r = r->next)
		if (r->off < least)
			least = r->off;
	return least;
}

static const struct xlog_mark *first_mark_from(const struct xlog *log, uint64_t off)
{
	size_t i = 0;

	while (i < log->mark_count && log->marks[i].off < off)
		i++;
	return i < log->mark_count ? &log->marks[i] : NULL;
}

static const struct xlog_mark *last_mark_to(const struct xlog *log, uint64_t off)
{
	size_t i = log->mark_count;

	while (i > 0 && log->marks[i - 1].off > off)
		i--;
	return i > 0 ? &log->marks[i - 1] : NULL;
}

static void drop_marks_in_hole(struct xlog *log)
{
	size_t kept = 0;

	for (size_t i = 0; i < log->mark_count; i++)
		if (log->marks[i].off <= log->hole_start.off || log->marks[i].off >= log->hole_end.off)
			log->marks[kept++] = log->marks[i];
	log->mark_count = kept;
}

/* Moves the hole's end as far as window and readers allow. False: nothing to punch. */
static bool hole_grow_locked(struct xlog *log)
{
	bool has_hole = log->hole_end.off > log->hole_start.off;
	uint64_t limit = slowest_reader(log);
	const struct xlog_mark *start, *end;

	if (log->size < (uint64_t)XLOG_HEAD_MAX + XLOG_WINDOW_MAX + XLOG_PUNCH_STEP)
		return false;
	if (limit > log->size - XLOG_WINDOW_MAX)
		limit = log->size - XLOG_WINDOW_MAX;
	start = has_hole ? &log->hole_start : first_mark_from(log, XLOG_HEAD_MAX);
	end = last_mark_to(log, limit);
	if (!start || !end || end->off < (has_hole ? log->hole_end.off : start->off) + XLOG_PUNCH_STEP)
		return false;
	log->hole_start = *start;
	log->hole_end = *end;
	drop_marks_in_hole(log);
	return true;
}

void xlog_committed(struct xlog *log)
{
	struct xlog_mark start, end;
	bool punch;

	pthread_mutex_lock(&log->lock);
	if (log->held) {
		log->held = 0;
		xlog_wake_locked(log);
	}
	punch = hole_grow_locked(log);
	start = log->hole_start;
	end = log->hole_end;
	pthread_mutex_unlock(&log->lock);
	/* Where the file system cannot punch, the log works and costs its length. */
	if (punch)
		(void)!fallocate(log->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start.off,
				 (off_t)(end.off - start.off));
}

void xlog_give_up(struct xlog *log, int err)
{
	pthread_mutex_lock(&log->lock);
	log->given_up = err;
	xlog_wake_locked(log);
	pthread_mutex_unlock(&log->lock);
}

int xlog_append(struct xlog *log, const char *lines, size_t len, uint64_t last_seq, bool end)
{
	int err;

	/* Only the writer thread changes size and last_seq: it reads them without the lock. */
	if (log->failed || log->ended)
		return log->failed ? log->failed : -ESHUTDOWN;
	err = lines_check(log, lines, len, last_seq);
	if (err)
		return err;
	err = xlog_write(log, lines, len);
	if (err)
		return err;
	pthread_mutex_lock(&log->lock);
	err = xlog_add_mark(log, log->size, log->last_seq);
	if (err) {
		pthread_mutex_unlock(&log->lock);
		return err;
	}
	/* The first lines name a row, and the last say that it is final. An end without lines has nothing to
	 * hold back. */
	if (len > 0 && (end || log->held > 0 || log->size == 0))
		log->held += len;
	else
		xlog_wake_locked(log);
	log->size += len;
	log->last_seq = last_seq;
	log->ended = end;
	pthread_mutex_unlock(&log->lock);
	return 0;
}

/* A new file's name is safe once its directory and that one's parent are synced. */
static int xlog_sync_names(struct xlog *log)
{
	int parent, err = 0;

	if (fsync(log->dir_fd) < 0)
		return -errno;
	parent = openat(log->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return -errno;
	if (fsync(parent) < 0)
		err = -errno;
	close(parent);
	return err;
}

int xlog_sync(struct xlog *log)
{
	int err = log->fd < 0 && log->size > 0 ? xlog_spill(log) : 0;

	if (err)
		return err;
	if (!log->dirty)
		return log->failed;
	if (fdatasync(log->fd) < 0)
		err = -errno;
	if (!err && !log->dir_synced)
		err = xlog_sync_names(log);
	if (!err) {
		log->dir_synced = true;
		log->dirty = false;
		return 0;
	}
	pthread_mutex_lock(&log->lock);
	log->failed = err;
	pthread_mutex_unlock(&log->lock);
	return err;
}

void xlog_cut(struct xlog *log, const struct xlog_position *to)
{
	pthread_mutex_lock(&log->lock);
	log->cuts++;
	if (to->size < log->size) {
		log->held -= log->held < log->size - to->size ? log->held : log->size - to->size;
		log->size = to->size;
		log->last_seq = to->last_seq;
		while (log->mark_count > 0 && log->marks[log->mark_count - 1].off > log->size)
			log->mark_count--;
	}
	log->ended = to->ended;
	for (struct xlog_reader *r = log->readers; r; r = r->next) {
		if (r->off <= log->size)
			continue;
		if (r->after < r->seq)
			r->after = r->seq;
		r->off = log->size;
		r->seq = log->last_seq;
	}
	if (log->fd >= 0)
		(void)!ftruncate(log->fd, (off_t)log->size);
	pthread_mutex_unlock(&log->lock);
}
