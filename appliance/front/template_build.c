/* POST /v1/templates/{name}/build: asks conf/builder, which runs as root and takes names only, and passes on what it
 * writes of it. A client that goes away ends nothing. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "../store/audit.h"
#include "../store/ids.h"
#include "handlers.h"
#include "respond.h"
#include "stream.h"

enum { LOG_CHUNK = 64 * 1024 };

static const char keepalive[] = "{\"type\":\"keepalive\"}\n";
static const struct field no_fields[] = { { .type = FIELD_END } };

struct log {
	char path[400];
	int fd, watch; /* fd -1: the builder has not come to it yet */
	char buf[LOG_CHUNK];
	size_t len; /* of a line that is not whole yet */
};

static int queue_write(struct request *r, const char *id, struct fault *f)
{
	char path[300], line[128];
	int n = snprintf(line, sizeof(line), "%s %s\n", id, r->id);
	int fd, err = 0;

	snprintf(path, sizeof(path), "%.256s/queue", r->settings->builds);
	/* Without a reader there is no builder: ENXIO. */
	fd = r->settings->builds[0] ? open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
	if (fd < 0 || write(fd, line, (size_t)n) != n)
		err = fault_set(f, EAGAIN, 503, "starting", "Templates cannot be built just now; try again in a moment.");
	if (fd >= 0)
		close(fd);
	return err;
}

static void audited(struct request *r, const char *id)
{
	struct store_txn *t = store_txn_new(r->store);
	json_t *detail = json_pack("{s:s,s:s}", "template", r->id, "build", id);

	store_txn_audit(t, r->owner, NULL, "template_build", detail);
	store_txn_submit(t, NULL, NULL);
	json_decref(detail);
}

/* 0; -ETIMEDOUT: nothing came; -EPIPE: the client hung up. */
static int log_wait(struct request *r, struct log *l)
{
	struct pollfd p[] = { { l->watch, POLLIN, 0 }, { r->fcgi->ipcFd, POLLRDHUP, 0 } };
	char events[4096];
	int n = poll(p, 2, STREAM_KEEPALIVE_MS);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (p[1].revents)
		return -EPIPE;
	if (n == 0)
		return -ETIMEDOUT;
	return read(l->watch, events, sizeof(events)) < 0 && errno != EAGAIN ? -errno : 0;
}

/* Whole lines of what is there; 1 behind the last one. */
static int log_pass(struct request *r, struct log *l)
{
	ssize_t n;
	char *last;
	size_t whole;
	int err;

	if (l->fd < 0)
		l->fd = open(l->path, O_RDONLY | O_CLOEXEC);
	if (l->fd < 0)
		return errno == ENOENT ? 0 : -errno;
	while ((n = read(l->fd, l->buf + l->len, sizeof(l->buf) - l->len)) > 0) {
		l->len += (size_t)n;
		last = memrchr(l->buf, '\n', l->len);
		if (!last && l->len == sizeof(l->buf))
			return -EPROTO;
		if (!last)
			continue;
		whole = (size_t)(last - l->buf) + 1;
		err = respond_write(r, l->buf, whole);
		if (!err)
			err = respond_flush(r);
		if (err)
			return err;
		*last = '\0';
		last = strrchr(l->buf, '\n');
		if (strncmp(last ? last + 1 : l->buf, "{\"type\":\"end\"", 13) == 0)
			return 1;
		l->len -= whole;
		memmove(l->buf, l->buf + whole, l->len);
	}
	return n < 0 ? -errno : 0;
}

static int log_stream(struct request *r, struct log *l)
{
	int err = respond_head(r, 200, "application/x-ndjson", -1, "X-Accel-Buffering: no\r\n");

	if (!err)
		err = respond_flush(r);
	while (!err && (err = log_pass(r, l)) == 0) {
		err = log_wait(r, l);
		if (err == -ETIMEDOUT)
			err = respond_write(r, keepalive, sizeof(keepalive) - 1);
		if (!err)
			err = respond_flush(r);
	}
	return err < 0 ? err : 0;
}

int template_rebuild(struct request *r, struct fault *f)
{
	struct log *l = calloc(1, sizeof(*l));
	char id[STORE_ID_MAX];
	int err = l ? request_fields(r, no_fields, NULL, f) : fault_no_memory(f);

	if (err) {
		free(l);
		return err;
	}
	id_new("bld", id);
	snprintf(l->path, sizeof(l->path), "%.256s/%s.log", r->settings->builds, id);
	l->fd = -1;
	/* Before it is asked for, so that nothing is missed. */
	l->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (l->watch < 0 || inotify_add_watch(l->watch, r->settings->builds, IN_CREATE | IN_MODIFY) < 0)
		err = fault_set(f, EAGAIN, 503, "starting", "Templates cannot be built here just now.");
	if (!err)
		err = queue_write(r, id, f);
	if (!err) {
		audited(r, id);
		err = log_stream(r, l);
	}
	if (l->watch >= 0)
		close(l->watch);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
	return err;
}
