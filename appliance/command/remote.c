#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signals.h"

const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int stop_at_signal(int signal, void *arg)
{
	(void)signal;
	(void)arg;
	return 1;
}

/* "/v1/sandboxes/ID/files?path=PATH", allocated. */
static char *files_path(const char *id, const char *path)
{
	char *sandbox = http_path("/v1/sandboxes/", id), *before = NULL, *whole = NULL;

	if (sandbox && asprintf(&before, "%s/files?path=", sandbox) > 0)
		whole = http_path(before, path);
	free(sandbox);
	free(before);
	return whole;
}

/* remote with the local file's name behind it, allocated. */
static char *inside(const char *remote, const char *local)
{
	size_t len = strlen(remote);
	char *path = NULL;

	if (asprintf(&path, "%s%s%s", remote, len > 0 && remote[len - 1] != '/' ? "/" : "",
		     base_name(local)) < 0)
		return NULL;
	return path;
}

static int put_once(struct command *c, const char *id, int fd, int64_t size, const char *remote,
		    struct reply *reply)
{
	struct request rq = { .method = "PUT",
			      .upload = true,
			      .upload_fd = fd,
			      .upload_size = size,
			      .interrupt = stop_at_signal };
	char *path = files_path(id, remote);
	int got = -1;

	if (path) {
		rq.path = path;
		got = http_do(&c->http, &rq, reply);
	} else {
		*reply = (struct reply){ .message = "Out of memory." };
	}
	free(path);
	return got;
}

static int put_fd(struct command *c, const char *id, int fd, const char *local, const char *remote,
		  int64_t *ret_size)
{
	struct reply reply;
	struct stat st;
	int64_t size;
	char *within;
	int got;

	if (fstat(fd, &st) < 0)
		return complain(EXIT_FAILED, "%s: %s.", local, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return complain(EXIT_FAILED, "%s is a directory: copy its files, or pack it with tar.",
				local);
	size = S_ISREG(st.st_mode) ? st.st_size - lseek(fd, 0, SEEK_CUR) : -1;
	got = put_once(c, id, fd, size, remote, &reply);
	if (got < 0 && size >= 0 && strcmp(reply.code, "is_a_directory") == 0) {
		within = inside(remote, local);
		if (within && lseek(fd, st.st_size - size, SEEK_SET) >= 0)
			got = put_once(c, id, fd, size, within, &reply);
		free(within);
	}
	if (got < 0 && reply.stopped)
		return complain(EXIT_SIGNAL + 2, "%s was not copied: interrupted.", local);
	if (got < 0)
		return complain_reply(c, EXIT_FAILED, &reply);
	if (ret_size)
		*ret_size = size;
	return EXIT_OK;
}

int remote_put(struct command *c, const char *id, const char *local, const char *remote, int64_t *ret_size)
{
	bool is_stdin = strcmp(local, "-") == 0, to_dir = !*remote || remote[strlen(remote) - 1] == '/';
	char *path;
	int fd, code;

	if (is_stdin && to_dir)
		return misused(c, "what comes from stdin needs a name: ID:PATH");
	fd = is_stdin ? STDIN_FILENO : open(local, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return complain(EXIT_FAILED, "%s: %s.", local, strerror(errno));
	path = to_dir ? inside(remote, local) : strdup(remote);
	code = path ? put_fd(c, id, fd, local, path, ret_size) : complain(EXIT_FAILED, "Out of memory.");
	free(path);
	if (!is_stdin)
		close(fd);
	return code;
}

struct download {
	int fd;
	int64_t size;
	int err;
};

static int on_bytes(const char *bytes, size_t len, void *arg)
{
	struct download *d = arg;

	for (size_t done = 0; done < len;) {
		ssize_t n = write(d->fd, bytes + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			d->err = errno;
			return -1;
		}
		done += n;
	}
	d->size += len;
	return 0;
}

static int get_fd(struct command *c, const char *id, const char *remote, int fd, const char *local,
		  int64_t *ret_size)
{
	struct download d = { .fd = fd };
	struct request rq = { .method = "GET", .sink = on_bytes, .interrupt = stop_at_signal, .arg = &d };
	char *path = files_path(id, remote);
	struct reply reply;
	int got;

	if (!path)
		return complain(EXIT_FAILED, "Out of memory.");
	rq.path = path;
	got = http_do(&c->http, &rq, &reply);
	free(path);
	if (got < 0 && d.err)
		return complain(EXIT_FAILED, "Writing %s failed: %s.", local, strerror(d.err));
	if (got < 0 && reply.stopped)
		return complain(EXIT_SIGNAL + 2, "%s was not copied: interrupted.", remote);
	if (got < 0)
		return complain_reply(c, EXIT_FAILED, &reply);
	if (ret_size)
		*ret_size = d.size;
	return EXIT_OK;
}

static int get_file(struct command *c, const char *id, const char *remote, const char *local,
		    int64_t *ret_size)
{
	char *temp = NULL;
	mode_t mask = umask(0);
	int fd, code;

	umask(mask);
	if (asprintf(&temp, "%s.XXXXXX", local) < 0)
		return complain(EXIT_FAILED, "Out of memory.");
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0) {
		code = complain(EXIT_FAILED, "%s: %s.", local, strerror(errno));
		free(temp);
		return code;
	}
	code = get_fd(c, id, remote, fd, local, ret_size);
	if (code == EXIT_OK && (fchmod(fd, 0666 & ~mask) < 0 || rename(temp, local) < 0))
		code = complain(EXIT_FAILED, "%s: %s.", local, strerror(errno));
	if (code != EXIT_OK)
		unlink(temp);
	close(fd);
	free(temp);
	return code;
}

int remote_get(struct command *c, const char *id, const char *remote, const char *local, int64_t *ret_size)
{
	struct stat st;
	char *within;
	int code;

	if (strcmp(local, "-") == 0)
		return get_fd(c, id, remote, STDOUT_FILENO, "stdout", ret_size);
	if (stat(local, &st) < 0 || !S_ISDIR(st.st_mode)) {
		/* A device or a pipe is written to, not replaced. */
		if (stat(local, &st) == 0 && !S_ISREG(st.st_mode)) {
			int fd = open(local, O_WRONLY | O_CLOEXEC);

			if (fd < 0)
				return complain(EXIT_FAILED, "%s: %s.", local, strerror(errno));
			code = get_fd(c, id, remote, fd, local, ret_size);
			close(fd);
			return code;
		}
		return get_file(c, id, remote, local, ret_size);
	}
	within = inside(local, remote);
	code = within ? get_file(c, id, remote, within, ret_size) : complain(EXIT_FAILED, "Out of memory.");
	free(within);
	return code;
}
