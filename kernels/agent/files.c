#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "agent.h"
#include "tail.h"
#include "util.h"
#include "worker.h"

char *files_path(struct request *rq)
{
	cleanup_free char *path = request_query(rq, "path", FILE_PATH_MAX - 1);

	if (!path || !*path) {
		request_fail(rq, 400, "bad_request",
			     "\"path\" must be percent-encoded UTF-8 of 1 to %d bytes without a NUL.",
			     FILE_PATH_MAX - 1);
		return NULL;
	}
	if (path[0] != '/')
		return xasprintf("%s/%s", rq->agent->opt.home, path);
	return xstrdup(path);
}

void files_fail(struct request *rq, int err, const char *path)
{
	json_t *text = text_json(path, strlen(path));
	const char *shown = json_string_value(text);

	switch (err) {
	case -ENOENT:
		request_fail(rq, 404, "no_such_file", "There is no \"%.512s\".", shown);
		break;
	case -EISDIR:
		request_fail(rq, 400, "is_a_directory", "\"%.512s\" is a directory.", shown);
		break;
	case -ENOTEMPTY:
		request_fail(rq, 400, "is_a_directory",
			     "\"%.512s\" is a directory; recursive=1 deletes it with all it holds.", shown);
		break;
	case -ENOTDIR:
		request_fail(rq, 400, "bad_request", "A part of \"%.512s\" is not a directory.", shown);
		break;
	case -ENOSPC:
	case -EDQUOT:
		request_fail(rq, 507, "disk_full", "The sandbox's disk is full; \"%.512s\" was not written.",
			     shown);
		break;
	case -EACCES:
	case -EPERM:
	case -EROFS:
		request_fail(rq, 403, "forbidden", "The sandbox's user may not do this with \"%.512s\".",
			     shown);
		break;
	case FILES_NOT_REGULAR:
		request_fail(rq, 400, "bad_request", "\"%.512s\" is not a regular file.", shown);
		break;
	case FILES_TOO_DEEP:
		request_fail(rq, 400, "bad_request", "\"%.512s\" holds directories nested deeper than %d.",
			     shown, FILE_DELETE_DEPTH);
		break;
	case -EAGAIN:
		request_fail(rq, 400, "bad_request",
			     "A program in the sandbox holds a lease on \"%.512s\": try again once it let go.", shown);
		break;
	case -ENAMETOOLONG:
	case -ELOOP:
	case -EINVAL:
	case -EBUSY:
		request_fail(rq, 400, "bad_request", "\"%.512s\": %s.", shown, strerror(-err));
		break;
	default:
		request_fail(rq, 500, "io", "\"%.512s\": %s.", shown, strerror(-err));
	}
	json_decref(text);
}

struct deletion {
	struct request *rq;
	char *path;
	bool recursive;
	int err;
};

static int delete_entries(int dirfd, int depth);

static int delete_at(int dirfd, const char *name, int depth)
{
	int fd, err;

	if (unlinkat(dirfd, name, 0) == 0)
		return 0;
	if (errno != EISDIR)
		return -errno;
	if (depth >= FILE_DELETE_DEPTH)
		return FILES_TOO_DEEP;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = delete_entries(fd, depth + 1);
	if (err)
		return err;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* Takes dirfd over. */
static int delete_entries(int dirfd, int depth)
{
	DIR *dir = fdopendir(dirfd);
	struct dirent *de;
	int err = 0;

	if (!dir) {
		err = -errno;
		close(dirfd);
		return err;
	}
	while (!err && (de = readdir(dir)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0) {
			err = delete_at(dirfd, de->d_name, depth);
			if (err == -ENOENT) /* someone else was faster */
				err = 0;
		}
	closedir(dir);
	return err;
}

static void delete_work(void *arg)
{
	struct deletion *d = arg;

	if (d->recursive)
		d->err = delete_at(AT_FDCWD, d->path, 0);
	else
		d->err = unlink(d->path) < 0 ? -errno : 0;
	if (d->err == -EISDIR)
		d->err = -ENOTEMPTY;
}

static void delete_done(void *arg)
{
	struct deletion *d = arg;

	if (d->err)
		files_fail(d->rq, d->err, d->path);
	else
		request_answer(d->rq, 204, NULL);
	free(d->path);
	free(d);
}

void files_delete(struct request *rq)
{
	cleanup_free char *recursive = request_query(rq, "recursive", 8);
	char *path = files_path(rq);
	struct deletion *d;
	size_t len;

	if (!path)
		return;
	for (len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	d = xcalloc(1, sizeof(*d));
	d->rq = rq;
	d->path = path;
	d->recursive = recursive && (strcmp(recursive, "1") == 0 || strcmp(recursive, "true") == 0);
	worker_run(rq->agent, true, delete_work, delete_done, d);
}
