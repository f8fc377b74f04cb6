#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "respond.h"

enum {
	STREAM_CHUNK = 64 * 1024,
	/* A sandbox that delivers no byte of a file for this long has stalled. */
	STREAM_STALL_MS = 60 * 1000,
};

static const char keepalive[] = "{\"type\":\"keepalive\"}\n";

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int stream_begin(struct request *r)
{
	int err = respond_head(r, 200, "application/x-ndjson", -1, "X-Accel-Buffering: no\r\n");

	return err ? err : respond_flush(r);
}

static int stream_send(struct request *r, const char *buf, size_t len)
{
	int err = respond_write(r, buf, len);

	return err ? err : respond_flush(r);
}

/* 0: the log has more; -ETIMEDOUT: silence; -EPIPE: the client hung up. */
static int log_wait(struct request *r, int log_fd, int timeout_ms)
{
	struct pollfd p[] = { { log_fd, POLLIN, 0 }, { r->fcgi->ipcFd, POLLRDHUP, 0 } };
	int n = poll(p, 2, timeout_ms > 0 ? timeout_ms : 0);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (p[1].revents)
		return -EPIPE;
	return n == 0 ? -ETIMEDOUT : 0;
}

static int log_copy(struct request *r, struct xlog_reader *reader, char *buf)
{
	int64_t silence = now_ms() + STREAM_KEEPALIVE_MS;

	for (;;) {
		ssize_t n = xlog_reader_read(reader, buf, XLOG_LINE_MAX + 1);
		int err;

		if (n == -ENODATA)
			return 0;
		if (n < 0)
			return (int)n;
		err = n > 0 ? stream_send(r, buf, (size_t)n)
			    : log_wait(r, xlog_reader_fd(reader), (int)(silence - now_ms()));
		if (err == -ETIMEDOUT)
			err = stream_send(r, keepalive, sizeof(keepalive) - 1);
		else if (err == 0 && n == 0)
			continue;
		if (err)
			return err;
		silence = now_ms() + STREAM_KEEPALIVE_MS;
	}
}

int stream_log(struct request *r, struct xlog *log, uint64_t after, struct fault *f)
{
	struct xlog_reader *reader = NULL;
	char *buf = malloc(XLOG_LINE_MAX + 1);
	int err = buf ? xlog_reader_new(log, after, &reader) : -ENOMEM;

	xlog_unref(log);
	if (err) {
		free(buf);
		return err == -ENOMEM
			       ? fault_no_memory(f)
			       : fault_set(f, -err, 500, "store_failed",
					   "The execution's events cannot be read: %s.", strerror(-err));
	}
	err = stream_begin(r);
	if (!err && !r->head_only)
		err = log_copy(r, reader, buf);
	xlog_reader_free(reader);
	free(buf);
	return err;
}

static int lines_copy(struct request *r, struct bytepipe *pipe, char *buf, struct fault *f)
{
	bool between = true; /* lines: only there may a keepalive stand */

	for (;;) {
		ssize_t n = bytepipe_read(pipe, buf, STREAM_CHUNK, r->fcgi->ipcFd, STREAM_KEEPALIVE_MS);
		int err = 0;

		if (n == 0)
			return bytepipe_fault(pipe, f) ? -EIO : 0;
		if (n < 0 && n != -ETIMEDOUT)
			return (int)n;
		if (!r->head_sent)
			err = stream_begin(r);
		if (!err && n > 0)
			err = stream_send(r, buf, (size_t)n);
		else if (!err && between)
			err = stream_send(r, keepalive, sizeof(keepalive) - 1);
		if (err)
			return err;
		if (n > 0)
			between = buf[n - 1] == '\n';
	}
}

int stream_lines(struct request *r, struct bytepipe *pipe, struct fault *f)
{
	char *buf = malloc(STREAM_CHUNK);
	int err = buf ? lines_copy(r, pipe, buf, f) : fault_no_memory(f);

	bytepipe_worker_close(pipe, NULL);
	free(buf);
	return err;
}

static int bytes_head(struct request *r, int64_t size)
{
	return respond_head(r, 200, "application/octet-stream", size, "");
}

/* What failed before there was a head is told as an error: a file that has gone or turned shorter meanwhile. */
static int bytes_none(ssize_t n, struct bytepipe *pipe, struct fault *f)
{
	if (n == 0 && bytepipe_fault(pipe, f))
		return -EIO;
	return fault_set(f, EIO, 503, "sandbox_stalled", "The sandbox sent nothing of what was asked for.");
}

static int bytes_copy(struct request *r, struct bytepipe *pipe, int64_t size, char *buf, struct fault *f)
{
	int64_t sent = 0;
	ssize_t n;
	int err;

	while ((n = bytepipe_read(pipe, buf, STREAM_CHUNK, r->fcgi->ipcFd, STREAM_STALL_MS)) > 0) {
		const bool first = sent == 0;

		err = first ? bytes_head(r, size) : 0;
		sent += n;
		/* More than was announced would corrupt what follows on the client's connection. */
		if (sent > size)
			return -EPROTO;
		if (!err)
			err = respond_write(r, buf, (size_t)n);
		/* What is cut off later is a body; without its head it would pass for a carreld that died. */
		if (!err && first)
			err = respond_flush(r);
		if (err)
			return err;
	}
	if (sent == 0 && (n < 0 || size > 0))
		return bytes_none(n, pipe, f);
	if (n < 0)
		return (int)n;
	if (bytepipe_fault(pipe, f) || sent < size)
		return -EIO;
	err = sent == 0 ? bytes_head(r, size) : 0;
	return err ? err : respond_flush(r);
}

int stream_bytes(struct request *r, struct bytepipe *pipe, int64_t size, struct fault *f)
{
	char *buf = malloc(STREAM_CHUNK);
	int err = buf ? 0 : fault_no_memory(f);

	if (!err && r->head_only)
		err = bytes_head(r, size);
	else if (!err)
		err = bytes_copy(r, pipe, size, buf, f);
	bytepipe_worker_close(pipe, NULL);
	free(buf);
	return err;
}

int stream_file(struct request *r, int fd, uint64_t size)
{
	char *buf = malloc(STREAM_CHUNK);
	int err = buf ? 0 : -ENOMEM;

	for (uint64_t done = 0; !err && done < size;) {
		size_t want = size - done < STREAM_CHUNK ? (size_t)(size - done) : STREAM_CHUNK;
		ssize_t n = pread(fd, buf, want, (off_t)done);

		err = n > 0 ? respond_write(r, buf, (size_t)n) : n == 0 ? -EIO : -errno;
		done += n > 0 ? (uint64_t)n : 0;
	}
	free(buf);
	return err ? err : respond_flush(r);
}
