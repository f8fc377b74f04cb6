#include "copy_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file as both sides had it when it was last copied. */
struct copied {
	struct copied *next;
	int64_t size;
	struct timespec here; /* mtime of ours */
	char there[40];       /* mtime of the sandbox's, as it is told; "" before it was */
	char path[];          /* relative to both folders */
};

struct copy_files {
	const char *directory;
	int fd;
	struct copied *files;
	unsigned count;
	int64_t bytes;
	bool off; /* more than the bounds */
};

/* One walk: the request's handle, and where a sentence goes. */
struct walk {
	struct copy_files *c;
	struct http *http;
	const char *sandbox_id;
	char *why;
	size_t why_size;
	bool measure;
};

struct copy_files *copy_files_new(const char *directory)
{
	struct copy_files *c = calloc(1, sizeof(*c));

	if (c)
		*c = (struct copy_files){ .directory = directory, .fd = -1 };
	return c;
}

void copy_files_free(struct copy_files *c)
{
	struct copied *f;

	if (!c)
		return;
	while ((f = c->files) != NULL) {
		c->files = f->next;
		free(f);
	}
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

static struct copied *copied_find(const struct copy_files *c, const char *path)
{
	struct copied *f = c->files;

	while (f && strcmp(f->path, path) != 0)
		f = f->next;
	return f;
}

static struct copied *copied_add(struct copy_files *c, const char *path)
{
	struct copied *f = copied_find(c, path);

	if (f || c->count >= COPY_FILES_MAX)
		return f;
	f = calloc(1, sizeof(*f) + strlen(path) + 1);
	if (!f)
		return NULL;
	strcpy(f->path, path);
	f->next = c->files;
	c->files = f;
	c->count++;
	return f;
}

static int explain(const struct walk *w, int err, const char *what, const char *path, const char *reason)
{
	snprintf(w->why, w->why_size, "%s %.200s: %.300s", what, path, reason);
	return err;
}

/* A request about the sandbox's file. failed: what to say where it fails. */
static int ask_file(struct walk *w, struct request *rq, const char *path, const char *failed)
{
	char before[160], *url;
	struct reply reply;
	int err;

	snprintf(before, sizeof(before), "/v1/sandboxes/%s/files?path=", w->sandbox_id);
	url = http_path(before, path);
	if (!url)
		return -ENOMEM;
	rq->path = url;
	err = http_do(w->http, rq, &reply);
	free(url);
	return err ? explain(w, -EIO, failed, path, reply.message) : 0;
}

/* --- in --- */

static int send_file(struct walk *w, const char *path, int fd, const struct stat *st)
{
	struct request rq = { .method = "PUT", .upload = true, .upload_fd = fd, .upload_size = st->st_size };

	return ask_file(w, &rq, path, "Could not copy into the sandbox");
}

static int take_file(struct walk *w, int dir, const char *name, const char *path)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), err = 0;
	struct copied *f;
	struct stat st;

	/* What cannot be read is no part of it. */
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return 0;
	}
	w->c->bytes += w->measure ? st.st_size : 0;
	w->c->count += w->measure;
	if (w->measure && (w->c->bytes > COPY_BYTES_MAX || w->c->count > COPY_FILES_MAX))
		err = -EFBIG;
	if (!w->measure)
		err = send_file(w, path, fd, &st);
	close(fd);
	f = !err && !w->measure ? copied_add(w->c, path) : NULL;
	if (f) {
		f->size = st.st_size;
		f->here = st.st_mtim;
	}
	return err;
}

static int walk_in(struct walk *w, int parent, const char *name, const char *prefix, int depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	char path[4096];

	if (!dir)
		return 0;
	while (!err && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.' ||
		    (size_t)snprintf(path, sizeof(path), "%s%s", prefix, entry->d_name) >= sizeof(path) - 1)
			continue;
		if (entry->d_type == DT_DIR && depth < COPY_DEPTH) {
			strcat(path, "/");
			err = walk_in(w, dirfd(dir), entry->d_name, path, depth + 1);
		} else if (entry->d_type == DT_REG) {
			err = take_file(w, dirfd(dir), entry->d_name, path);
		}
	}
	closedir(dir);
	return err;
}

/* --- back --- */

static int list_page(struct walk *w, const char *path, const char *after, json_t **ret)
{
	char before[400], *url;
	struct reply reply;
	int err;

	if (after)
		snprintf(before, sizeof(before),
			 "/v1/sandboxes/%s/files/list?limit=1000&cursor=%.200s&path=", w->sandbox_id, after);
	else
		snprintf(before, sizeof(before),
			 "/v1/sandboxes/%s/files/list?limit=1000&path=", w->sandbox_id);
	url = http_path(before, *path ? path : ".");
	if (!url)
		return -ENOMEM;
	err = http_json(w->http, "GET", url, NULL, ret, &reply);
	free(url);
	return err ? explain(w, -EIO, "Could not list the sandbox's", *path ? path : "folder", reply.message)
		   : 0;
}

static int mkdirs(int dir, char *path)
{
	char *slash;

	for (slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdirat(dir, path, 0777) < 0 && errno != EEXIST) {
			*slash = '/';
			return -errno;
		}
		*slash = '/';
	}
	return 0;
}

static int on_bytes(const char *bytes, size_t len, void *arg)
{
	int fd = *(int *)arg;

	while (len > 0) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0)
			return -1;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

static int fetch_to(struct walk *w, const char *path, int fd)
{
	struct request rq = { .method = "GET", .sink = on_bytes, .arg = &fd };

	return ask_file(w, &rq, path, "Could not copy back");
}

/* Changed here since it was copied: then the sandbox's comes beside it. */
static bool changed_here(const struct walk *w, const struct copied *f, const char *path)
{
	struct stat st;

	if (fstatat(w->c->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return !f || st.st_mtim.tv_sec != f->here.tv_sec || st.st_mtim.tv_nsec != f->here.tv_nsec;
}

static int fetch(struct walk *w, const char *path, const char *mtime, int64_t size)
{
	struct copied *f = copied_find(w->c, path);
	char to[4200], part[4300];
	struct stat st;
	int fd, err;

	snprintf(to, sizeof(to), "%s%s", path, changed_here(w, f, path) ? ".from-sandbox" : "");
	snprintf(part, sizeof(part), "%s.carrel-part", to);
	err = mkdirs(w->c->fd, part);
	fd = err ? err : openat(w->c->fd, part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return explain(w, err ? err : -errno, "Could not write", part, strerror(err ? -err : errno));
	err = fetch_to(w, path, fd);
	if (!err && (fstat(fd, &st) < 0 || renameat(w->c->fd, part, w->c->fd, to) < 0))
		err = explain(w, -errno, "Could not write", to, strerror(errno));
	close(fd);
	if (err) {
		unlinkat(w->c->fd, part, 0);
		return err;
	}
	f = copied_add(w->c, path);
	if (f) {
		f->size = size;
		if (strcmp(to, path) == 0)
			f->here = st.st_mtim;
		snprintf(f->there, sizeof(f->there), "%s", mtime);
	}
	return 0;
}

/* No path of a sandbox leaves the folder: names come from inside it. */
static bool name_ok(const char *name)
{
	return name && *name && name[0] != '.' && !strchr(name, '/');
}

static int walk_back(struct walk *w, const char *prefix, int depth);

static int take_entry(struct walk *w, json_t *entry, const char *prefix, int depth)
{
	const char *name = json_string_value(json_object_get(entry, "name"));
	const char *type = json_string_value(json_object_get(entry, "type"));
	const char *mtime = json_string_value(json_object_get(entry, "mtime"));
	int64_t size = json_integer_value(json_object_get(entry, "size"));
	struct copied *f;
	char path[4096];

	if (!name_ok(name) || !type || !mtime ||
	    (size_t)snprintf(path, sizeof(path), "%s%s", prefix, name) >= sizeof(path) - 1)
		return 0;
	if (strcmp(type, "dir") == 0 && depth < COPY_DEPTH) {
		strcat(path, "/");
		return walk_back(w, path, depth + 1);
	}
	if (strcmp(type, "file") != 0)
		return 0;
	f = copied_find(w->c, path);
	if (w->measure) {
		/* As it is there right behind the copying: what differs later was changed by a cell. */
		if (f)
			snprintf(f->there, sizeof(f->there), "%s", mtime);
		return 0;
	}
	if (f && f->size == size && strcmp(f->there, mtime) == 0)
		return 0;
	if (size > COPY_BYTES_MAX)
		return explain(w, 0, "Not copied back, for it is larger than 64 MiB:", path,
			       "fetch it with carrel cp");
	return fetch(w, path, mtime, size);
}

static int walk_back(struct walk *w, const char *prefix, int depth)
{
	char after[256] = "";
	json_t *page, *one;
	size_t i;
	int err = 0;

	do {
		const char *next;

		err = list_page(w, prefix, *after ? after : NULL, &page);
		if (err)
			return err;
		json_array_foreach(json_object_get(page, "entries"), i, one)
		{
			if (!err)
				err = take_entry(w, one, prefix, depth);
		}
		next = json_string_value(json_object_get(page, "next"));
		snprintf(after, sizeof(after), "%s", next ? next : "");
		json_decref(page);
	} while (!err && *after);
	return err;
}

int copy_files_in(struct copy_files *c, struct http *h, const char *sandbox_id, char *why, size_t size)
{
	struct walk w = {
		.c = c, .http = h, .sandbox_id = sandbox_id, .why = why, .why_size = size, .measure = true
	};
	int err;

	if (c->fd < 0)
		c->fd = open(c->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->fd < 0)
		return explain(&w, -errno, "Cannot open the folder", c->directory, strerror(errno));
	err = walk_in(&w, c->fd, ".", "", 0);
	c->count = 0;
	if (err == -EFBIG) {
		c->off = true;
		return explain(&w, err, "Not copied into the sandbox:", c->directory,
			       "its files are more than 64 MiB or 10000; copy what is needed with carrel cp");
	}
	w.measure = false;
	if (!err)
		err = walk_in(&w, c->fd, ".", "", 0);
	w.measure = true;
	return err ? err : walk_back(&w, "", 0);
}

int copy_files_back(struct copy_files *c, struct http *h, const char *sandbox_id, char *why, size_t size)
{
	struct walk w = { .c = c, .http = h, .sandbox_id = sandbox_id, .why = why, .why_size = size };

	return c->off || c->fd < 0 ? 0 : walk_back(&w, "", 0);
}
