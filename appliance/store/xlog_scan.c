/* Marks and hole of a log that was written by an earlier process.
 *
 * Lines hold no NUL, and the hole reads as NULs: the head ends at the first one,
 * the window begins behind the last. Lines of the head are counted from 1, those
 * of the window backwards from the last number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xlog_inner.h"

enum { SCAN_SIZE = 256 * 1024 };

struct scan {
	struct xlog *log;
	char *buf;
	uint64_t at, lines;
};

static ssize_t scan_fill(struct scan *s)
{
	uint64_t left = s->log->size - s->at;
	ssize_t n = pread(s->log->fd, s->buf, left < SCAN_SIZE ? left : SCAN_SIZE, (off_t)s->at);

	if (n == 0)
		return -EUCLEAN;
	return n < 0 ? -errno : n;
}

/* Lines from s->at to a NUL or the end; false in *ret_more: the end. */
static int scan_lines(struct scan *s, bool *ret_more)
{
	uint64_t line_start = s->at;
	int err = xlog_add_mark(s->log, s->at, s->lines);

	while (!err && s->at < s->log->size) {
		ssize_t n = scan_fill(s);
		char *nul, *end, *at = s->buf;

		if (n < 0)
			return (int)n;
		nul = memchr(s->buf, '\0', n);
		for (; !err && (end = memchr(at, '\n', (nul ? nul : s->buf + n) - at)); at = end + 1) {
			line_start = s->at + (end + 1 - s->buf);
			err = xlog_add_mark(s->log, line_start, ++s->lines);
		}
		s->at += nul ? nul - s->buf : n;
		if (nul) {
			*ret_more = true;
			return line_start == s->at ? err : -EUCLEAN;
		}
	}
	*ret_more = false;
	return !err && line_start != s->log->size ? -EUCLEAN : err;
}

static int scan_hole(struct scan *s)
{
	while (s->at < s->log->size) {
		off_t data = lseek(s->log->fd, (off_t)s->at, SEEK_DATA);
		ssize_t n, i = 0;

		if (data < 0)
			return errno == ENXIO ? -EUCLEAN : -errno;
		s->at = data;
		if (s->at >= s->log->size)
			return -EUCLEAN;
		n = scan_fill(s);
		if (n < 0)
			return (int)n;
		while (i < n && s->buf[i] == '\0')
			i++;
		s->at += i;
		if (i < n)
			return 0;
	}
	return -EUCLEAN;
}

static int scan_all(struct scan *s)
{
	struct xlog *log = s->log;
	uint64_t head_lines;
	size_t head_marks;
	bool more;
	int err = scan_lines(s, &more);

	if (err)
		return err;
	if (!more)
		return s->lines == log->last_seq ? 0 : -EUCLEAN;
	log->hole_start = (struct xlog_mark){ .off = s->at, .seq = s->lines };
	head_lines = s->lines;
	head_marks = log->mark_count;
	err = scan_hole(s);
	if (err)
		return err;
	log->hole_end.off = s->at;
	err = scan_lines(s, &more);
	if (err || more || s->lines > log->last_seq)
		return err ? err : -EUCLEAN;
	/* Now that the window's lines are counted, its numbers are known. */
	for (size_t i = head_marks; i < log->mark_count; i++)
		log->marks[i].seq += log->last_seq - s->lines;
	log->hole_end.seq = log->last_seq - (s->lines - head_lines);
	return 0;
}

int xlog_scan(struct xlog *log)
{
	struct scan s = { .log = log, .buf = malloc(SCAN_SIZE) };
	int err = s.buf ? scan_all(&s) : -ENOMEM;

	free(s.buf);
	return err;
}
