/* Readers of the event log: each at its own pace, on any thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "xlog_inner.h"

struct xlog_mark xlog_seek_locked(struct xlog *log, uint64_t seq)
{
	struct xlog_mark found = { 0 };

	for (size_t i = 0; i < log->mark_count && log->marks[i].seq <= seq; i++)
		found = log->marks[i];
	return found;
}

int xlog_reader_new(struct xlog *log, uint64_t after_seq, struct xlog_reader **ret)
{
	struct xlog_reader *r = malloc(sizeof(*r));
	struct xlog_mark from;

	if (!r)
		return -ENOMEM;
	*r = (struct xlog_reader){ .log = log, .after = after_seq, .signalled = true };
	r->event_fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	if (r->event_fd < 0) {
		free(r);
		return -errno;
	}
	xlog_ref(log);
	pthread_mutex_lock(&log->lock);
	from = xlog_seek_locked(log, after_seq);
	r->off = from.off;
	r->seq = from.seq;
	r->next = log->readers;
	log->readers = r;
	pthread_mutex_unlock(&log->lock);
	*ret = r;
	return 0;
}

/* True once, when the slowest reader has caught up: the source may go on. */
static bool caught_up_locked(struct xlog *log)
{
	if (!log->lagging)
		return false;
	log->lagging = false;
	xlog_lag_locked(log); /* sets it again if it still holds */
	return !log->lagging;
}

void xlog_reader_free(struct xlog_reader *r)
{
	struct xlog_reader **at;
	bool caught_up;

	if (!r)
		return;
	pthread_mutex_lock(&r->log->lock);
	for (at = &r->log->readers; *at != r; at = &(*at)->next)
		;
	*at = r->next;
	caught_up = caught_up_locked(r->log);
	pthread_mutex_unlock(&r->log->lock);
	if (caught_up)
		xlog_tell_progress(r->log);
	xlog_unref(r->log);
	close(r->event_fd);
	free(r);
}

int xlog_reader_fd(struct xlog_reader *r)
{
	return r->event_fd;
}

/* The synthetic line in place of the hole, and the step over it. */
static ssize_t cross_hole_locked(struct xlog_reader *r, char *buf, size_t size)
{
	struct xlog *log = r->log;
	uint64_t gone = log->hole_end.off - log->hole_start.off;
	uint64_t from = r->after > log->hole_start.seq ? r->after + 1 : log->hole_start.seq + 1;
	int len = 0;

	if (r->after < log->hole_end.seq)
		len = snprintf(buf, size,
			       "{\"type\":\"truncated\",\"stream\":\"events\",\"bytes_total\":%llu,\"bytes_"
			       "kept\":%llu,"
			       "\"from_seq\":%llu,\"to_seq\":%llu}\n",
			       (unsigned long long)log->size, (unsigned long long)(log->size - gone),
			       (unsigned long long)from, (unsigned long long)log->hole_end.seq);
	r->off = log->hole_end.off;
	r->seq = log->hole_end.seq;
	return len;
}

/* Whole lines in buf: leaves out those up to r->after, moves the reader on. Bytes to deliver. */
static size_t take_lines(struct xlog_reader *r, char *buf, size_t len)
{
	size_t skip = 0, used = 0;

	while (used < len) {
		char *end = memchr(buf + used, '\n', len - used);

		if (!end)
			break;
		used = end + 1 - buf;
		if (++r->seq <= r->after)
			skip = used;
	}
	r->off += used;
	memmove(buf, buf + skip, used - skip);
	return used - skip;
}

/* What may be read at r->off: the end of the log, or of the head before the hole. */
static uint64_t readable_locked(const struct xlog_reader *r)
{
	const struct xlog *log = r->log;

	if (log->hole_end.off > log->hole_start.off && r->off < log->hole_start.off)
		return log->hole_start.off - r->off;
	return log->size - log->held - r->off;
}

static bool at_hole_locked(const struct xlog_reader *r)
{
	const struct xlog *log = r->log;

	return log->hole_end.off > log->hole_start.off && r->off >= log->hole_start.off &&
	       r->off < log->hole_end.off;
}

static ssize_t nothing_locked(struct xlog_reader *r)
{
	eventfd_t drained;

	if (r->log->ended && !r->log->held)
		return -ENODATA;
	if (r->log->failed || r->log->given_up)
		return r->log->failed ? r->log->failed : r->log->given_up;
	if (r->signalled)
		eventfd_read(r->event_fd, &drained);
	r->signalled = false;
	return 0;
}

/* Bytes to deliver; 0 with *ret_again: lines were left out, or cut meanwhile. */
static ssize_t read_lines(struct xlog_reader *r, char *buf, size_t want, bool *ret_again)
{
	struct xlog *log = r->log;
	unsigned cuts = log->cuts;
	uint64_t off = r->off;
	ssize_t n;

	if (log->fd < 0) {
		memcpy(buf, log->small + off, want);
		*ret_again = true;
		return (ssize_t)take_lines(r, buf, want);
	}
	/* Not under the lock: the writer never waits for a reader's disk. No hole comes where a reader is. */
	pthread_mutex_unlock(&log->lock);
	n = pread(log->fd, buf, want, (off_t)off);
	if (n < 0)
		n = -errno;
	pthread_mutex_lock(&log->lock);
	*ret_again = true;
	if (log->cuts != cuts)
		return 0;
	if (n <= 0)
		return n < 0 ? n : -EIO;
	return (ssize_t)take_lines(r, buf, n);
}

static ssize_t read_once_locked(struct xlog_reader *r, char *buf, size_t size, bool *ret_again)
{
	uint64_t want;

	*ret_again = true;
	if (at_hole_locked(r))
		return cross_hole_locked(r, buf, size);
	want = readable_locked(r);
	if (want > 0)
		return read_lines(r, buf, want < size ? want : size, ret_again);
	*ret_again = false;
	return nothing_locked(r);
}

ssize_t xlog_reader_read(struct xlog_reader *r, char *buf, size_t size)
{
	bool again, caught_up;
	ssize_t n;

	/* A smaller buffer could meet a line that never fits. */
	if (size < XLOG_LINE_MAX + 1)
		return -EINVAL;
	do {
		pthread_mutex_lock(&r->log->lock);
		n = read_once_locked(r, buf, size, &again);
		caught_up = caught_up_locked(r->log);
		pthread_mutex_unlock(&r->log->lock);
		if (caught_up)
			xlog_tell_progress(r->log);
	} while (n == 0 && again);
	return n;
}
