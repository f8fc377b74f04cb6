#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent.h"
#include "files.h"
#include "tail.h"
#include "util.h"
#include "worker.h"

/* One upload. Bytes collect in `in` while the thread writes `out`; what the host
 * may send ahead is bounded by the stream's window, which opens as bytes are
 * written. */
struct upload {
	struct request *rq;
	struct agent *agent;
	char *path;   /* asked for */
	char *target; /* after links */
	char *temp;   /* NULL: not made, or gone */
	int fd;
	bool running; /* a step is on the thread; only it touches what follows */
	bool opened, eof, replaced;
	uint8_t *in, *out;
	size_t in_len, out_len;
	int64_t size;
	int err;
};

static void upload_go_on(struct upload *u);

/* Every folder above path. */
static int make_parents(char *path)
{
	char *slash;

	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		int err = 0;

		*slash = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST) {
			struct stat st;

			/* It may exist where the user may not make it. */
			err = -errno;
			if (stat(path, &st) == 0)
				err = S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
		}
		*slash = '/';
		if (err)
			return err;
	}
	return 0;
}

/* The file behind links, and whether it may be replaced. */
static int find_target(struct upload *u, mode_t *ret_mode)
{
	struct stat st;

	*ret_mode = 0644;
	if (stat(u->path, &st) < 0) {
		if (errno != ENOENT)
			return -errno;
		u->target = xstrdup(u->path);
		return 0;
	}
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return FILES_NOT_REGULAR;
	u->target = realpath(u->path, NULL);
	if (!u->target)
		return -errno;
	*ret_mode = st.st_mode & 0777;
	u->replaced = true;
	return 0;
}

static void open_work(void *arg)
{
	struct upload *u = arg;
	size_t len = strlen(u->path);
	char digits[17];
	mode_t mode;

	if (u->path[len - 1] == '/') {
		u->err = -EISDIR;
		return;
	}
	u->err = make_parents(u->path);
	if (!u->err)
		u->err = find_target(u, &mode);
	if (u->err)
		return;
	random_hex(digits, 16);
	u->temp = xasprintf("%.*s/.carrel-%s", (int)(strrchr(u->target, '/') - u->target), u->target, digits);
	u->fd = open(u->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (u->fd < 0) {
		u->err = -errno;
		free(u->temp);
		u->temp = NULL;
	} else if (fchmod(u->fd, mode) < 0) {
		u->err = -errno;
	}
}

static void write_work(void *arg)
{
	struct upload *u = arg;
	size_t at = 0;

	while (at < u->out_len) {
		ssize_t n = write(u->fd, u->out + at, u->out_len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			u->err = -errno;
			return;
		}
		at += (size_t)n;
	}
	u->size += (int64_t)u->out_len;
}

static int sync_folder(const char *path)
{
	cleanup_free char *folder = xasprintf("%.*s/", (int)(strrchr(path, '/') - path), path);
	cleanup_close int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* A folder that may be written to and not read: the rename stands, its
	 * place on disk follows with the next sync. */
	if (fd < 0)
		return errno == EACCES ? 0 : -errno;
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

static void finish_work(void *arg)
{
	struct upload *u = arg;

	if (fsync(u->fd) < 0) {
		u->err = -errno;
		return;
	}
	if (rename(u->temp, u->target) < 0) {
		u->err = -errno;
		return;
	}
	free(u->temp);
	u->temp = NULL;
	u->err = sync_folder(u->target);
}

static void discard_work(void *arg)
{
	struct upload *u = arg;

	if (u->temp)
		unlink(u->temp);
	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
}

static void upload_free(void *arg)
{
	struct upload *u = arg;

	free(u->path);
	free(u->target);
	free(u->temp);
	free(u->in);
	free(u->out);
	free(u);
}

/* What will not be written must not keep the window shut. */
static void upload_drain(struct upload *u)
{
	if (u->in_len && u->rq->st)
		link_consume(u->rq->st, u->in_len);
	u->in_len = 0;
}

static void on_discarded(void *arg)
{
	struct upload *u = arg;

	upload_drain(u);
	files_fail(u->rq, u->err, u->path);
	upload_free(u);
}

/* A failure is told once nothing of the upload is left: whoever hears of a full
 * disk and looks finds neither a partial file nor its space taken. */
static void upload_end(struct upload *u)
{
	upload_drain(u);
	if (u->err) {
		u->running = true;
		worker_run(u->agent, true, discard_work, on_discarded, u);
		return;
	}
	if (u->rq->st)
		request_answer(u->rq, u->replaced ? 200 : 201,
			       json_pack("{s:o, s:I}", "path", text_json(u->path, strlen(u->path)), "size",
					 (json_int_t)u->size));
	else
		request_finish(u->rq);
	u->rq = NULL;
	worker_run(u->agent, true, discard_work, upload_free, u);
}

static void step_done(void *arg)
{
	struct upload *u = arg;

	u->running = false;
	u->opened = true;
	if (u->out_len && u->rq->st)
		link_consume(u->rq->st, u->out_len);
	u->out_len = 0;
	upload_go_on(u);
}

static void finish_done(void *arg)
{
	upload_end(arg);
}

static void run_step(struct upload *u, void (*work)(void *arg), void (*done)(void *arg))
{
	u->running = true;
	worker_run(u->agent, true, work, done, u);
}

static void upload_go_on(struct upload *u)
{
	if (u->running)
		return;
	if (!u->rq->st && !u->eof && !u->err)
		u->err = -ECANCELED;
	if (u->err)
		return upload_end(u);
	if (u->in_len) {
		uint8_t *bytes = u->out;

		u->out = u->in;
		u->out_len = u->in_len;
		u->in = bytes;
		u->in_len = 0;
		return run_step(u, write_work, step_done);
	}
	if (u->eof)
		run_step(u, finish_work, finish_done);
}

static void on_data(void *arg, const uint8_t *bytes, size_t len)
{
	struct upload *u = arg;

	/* More than the window: the peer, or flow control, is broken. */
	if (u->in_len + len > LINK_STREAM_WINDOW) {
		u->err = -EPROTO;
		return upload_go_on(u);
	}
	memcpy(u->in + u->in_len, bytes, len);
	u->in_len += len;
	upload_go_on(u);
}

static void on_eof(void *arg)
{
	struct upload *u = arg;

	u->eof = true;
	upload_go_on(u);
}

static void on_closed(void *arg)
{
	upload_go_on(arg);
}

static const struct request_hooks hooks = { .data = on_data, .eof = on_eof, .closed = on_closed };

void files_put(struct request *rq)
{
	char *path = files_path(rq);
	struct upload *u;

	if (!path)
		return;
	u = xcalloc(1, sizeof(*u));
	u->rq = rq;
	u->agent = rq->agent;
	u->path = path;
	u->fd = -1;
	u->in = xcalloc(1, LINK_STREAM_WINDOW);
	u->out = xcalloc(1, LINK_STREAM_WINDOW);
	rq->hooks = &hooks;
	rq->hook_arg = u;
	run_step(u, open_work, step_done);
}
