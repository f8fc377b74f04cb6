#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "agent.h"
#include "files.h"
#include "util.h"
#include "worker.h"

/* One download: as many bytes as the file had when it was opened, or none of
 * the end: the stream is reset where it turned shorter meanwhile. */
struct download {
	struct request *rq;
	struct agent *agent;
	char *path;
	int fd;
	bool running, responded;
	uint64_t size, read, sent;
	uint8_t bytes[FILE_READ_MAX];
	size_t len, at;
	int err;
};

static void download_go_on(struct download *d);

/* Files of virtual file systems have no length, and /proc/self would be the agent's. */
static bool is_virtual(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
					 fs.f_type == CGROUP2_SUPER_MAGIC);
}

static int check_kind(const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	return S_ISREG(st->st_mode) ? 0 : FILES_NOT_REGULAR;
}

static void open_work(void *arg)
{
	struct download *d = arg;
	struct stat st;

	/* Looked at before it is opened, since opening a device can do
	 * something; and after, since it can change in between. */
	if (stat(d->path, &st) < 0) {
		d->err = -errno;
		return;
	}
	d->err = check_kind(&st);
	if (d->err)
		return;
	d->fd = open(d->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &st) < 0) {
		d->err = -errno;
		return;
	}
	d->err = is_virtual(d->fd) ? FILES_NOT_REGULAR : check_kind(&st);
	d->size = (uint64_t)st.st_size;
}

static void read_work(void *arg)
{
	struct download *d = arg;
	uint64_t left = d->size - d->read;
	ssize_t n;

	do
		n = pread(d->fd, d->bytes, left < sizeof(d->bytes) ? (size_t)left : sizeof(d->bytes),
			  (off_t)d->read);
	while (n < 0 && errno == EINTR);
	if (n <= 0) {
		d->err = n < 0 ? -errno : -EIO;
		return;
	}
	d->len = (size_t)n;
	d->at = 0;
	d->read += (uint64_t)n;
}

static void close_work(void *arg)
{
	struct download *d = arg;

	if (d->fd >= 0)
		close(d->fd);
}

static void download_free(void *arg)
{
	struct download *d = arg;

	free(d->path);
	free(d);
}

static void download_end(struct download *d)
{
	if (!d->responded) {
		files_fail(d->rq, d->err ? d->err : -ECANCELED, d->path);
	} else {
		if (d->err && d->rq->st)
			link_reset(d->rq->st);
		else if (d->rq->st)
			link_end(d->rq->st);
		request_finish(d->rq);
	}
	d->rq = NULL;
	worker_run(d->agent, true, close_work, download_free, d);
}

static void step_done(void *arg)
{
	struct download *d = arg;

	d->running = false;
	download_go_on(d);
}

static void run_step(struct download *d, void (*work)(void *arg))
{
	d->running = true;
	worker_run(d->agent, true, work, step_done, d);
}

static void download_go_on(struct download *d)
{
	if (d->running)
		return;
	if (d->err || !d->rq->st)
		return download_end(d);
	if (!d->responded) {
		d->responded = true;
		link_respond(d->rq->st, 200, "application/octet-stream", (int64_t)d->size);
	}
	if (d->at < d->len) {
		size_t n = link_write(d->rq->st, d->bytes + d->at, d->len - d->at);

		d->at += n;
		d->sent += n;
	}
	if (d->sent == d->size)
		return download_end(d);
	if (d->at == d->len)
		run_step(d, read_work);
}

static void on_writable(void *arg)
{
	download_go_on(arg);
}

static const struct request_hooks hooks = { .writable = on_writable, .closed = on_writable };

void files_get(struct request *rq)
{
	char *path = files_path(rq);
	struct download *d;

	if (!path)
		return;
	d = xcalloc(1, sizeof(*d));
	d->rq = rq;
	d->agent = rq->agent;
	d->path = path;
	d->fd = -1;
	rq->hooks = &hooks;
	rq->hook_arg = d;
	run_step(d, open_work);
}
