/* Files and processes of the core's stand-in: the hub's side of each pipe is a
 * thread that waits for the pipe to change. See fake_core.c. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_core.h"

enum { SHORT_BY = 1000, FULL_AT = 1024 * 1024 };

struct transfer {
	struct core *core;
	struct bytepipe *pipe;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool poked, done;
	char *path, *bytes;
	size_t len, size;
	bool silent; /* deliver nothing, wait for the worker to go */
	int err;     /* what the hub says at the end */
	struct fault fault;
};

static void transfer_poke(void *arg)
{
	struct transfer *t = arg;

	pthread_mutex_lock(&t->lock);
	t->poked = true;
	pthread_cond_broadcast(&t->wake);
	pthread_mutex_unlock(&t->lock);
}

static void transfer_wait(struct transfer *t)
{
	pthread_mutex_lock(&t->lock);
	while (!t->poked)
		pthread_cond_wait(&t->wake, &t->lock);
	t->poked = false;
	pthread_mutex_unlock(&t->lock);
}

static struct transfer *transfer_new(struct core *c, const char *path)
{
	struct transfer *t = calloc(1, sizeof(*t));

	t->core = c;
	t->path = strdup(path);
	t->pipe = bytepipe_new();
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->wake, NULL);
	bytepipe_on_change(t->pipe, transfer_poke, t);
	return t;
}

static void transfer_free(struct transfer *t)
{
	free(t->path);
	free(t->bytes);
	free(t);
}

/* --- out: files to clients, lines of processes --- */

static void *out_main(void *arg)
{
	struct transfer *t = arg;
	struct core *c = t->core;
	struct timespec now;
	size_t sent = 0;

	while (!bytepipe_worker_gone(t->pipe) && (t->silent || sent < t->len)) {
		size_t n = t->silent ? 0 : bytepipe_hub_write(t->pipe, t->bytes + sent, t->len - sent);

		sent += n;
		if (n == 0)
			transfer_wait(t);
	}
	if (t->silent) {
		clock_gettime(CLOCK_REALTIME, &now);
		pthread_mutex_lock(&c->lock);
		c->gone_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
		pthread_mutex_unlock(&c->lock);
	}
	bytepipe_on_change(t->pipe, NULL, NULL);
	bytepipe_hub_close(t->pipe, t->err ? &t->fault : NULL);
	transfer_free(t);
	fake_thread_end(c);
	return NULL;
}

static struct fake_file *file_find(struct core *c, const char *path)
{
	struct fake_file *file = c->files;

	while (file && strcmp(file->path, path) != 0)
		file = file->next;
	return file;
}

static int no_such_file(struct fault *f, const char *path)
{
	return fault_set(f, ENOENT, 404, "no_such_file", "There is no file %.80s.", path);
}

int core_file_get(struct core *c, const char *owner, const char *sandbox_id, const char *path,
		  struct bytepipe **out, int64_t *ret_size, struct fault *f)
{
	int err = fake_sandbox_check(c, owner, sandbox_id, f);
	struct transfer *t;
	struct fake_file *file;

	if (err)
		return err;
	pthread_mutex_lock(&c->lock);
	file = file_find(c, path);
	t = file ? transfer_new(c, path) : NULL;
	if (t) {
		t->bytes = malloc(file->len + 1);
		if (file->len > 0)
			memcpy(t->bytes, file->bytes, file->len);
		t->len = file->len;
	}
	pthread_mutex_unlock(&c->lock);
	if (!t)
		return no_such_file(f, path);
	*ret_size = (int64_t)t->len;
	if (!strcmp(path, "short")) {
		*ret_size += SHORT_BY;
		t->err = fault_set(&t->fault, EIO, 503, "sandbox_gone", "The sandbox ended.");
	}
	*out = t->pipe;
	fake_thread(c, out_main, t);
	return 0;
}

int core_process_run(struct core *c, const char *owner, const char *sandbox_id,
		     const struct process_spec *spec, struct bytepipe **out, struct fault *f)
{
	const char *program = spec->argv ? json_string_value(json_array_get(spec->argv, 0)) : spec->cmd;
	int err = fake_sandbox_check(c, owner, sandbox_id, f);
	json_t *line;
	char *text;
	struct transfer *t;

	if (err)
		return err;
	t = transfer_new(c, program);
	t->silent = !strcmp(program, "sleep");
	line = json_pack("{s:s, s:s%}", "type", "stdout", "text", spec->stdin_text ? spec->stdin_text : "",
			 spec->stdin_len);
	text = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII);
	t->size = strlen(text) + 200;
	t->bytes = malloc(t->size);
	t->len = (size_t)snprintf(t->bytes, t->size,
				  "{\"type\":\"started\",\"pid\":1}\n%s\n{\"type\":\"end\",\"exit_code\":0,"
				  "\"duration_ms\":1}\n",
				  text);
	json_decref(line);
	free(text);
	*out = t->pipe;
	fake_thread(c, out_main, t);
	return 0;
}

/* --- in: uploads --- */

struct file_put {
	struct transfer *t;
};

static void in_take(struct transfer *t, const char *buf, size_t n)
{
	if (!strcmp(t->path, "full") && t->len + n > FULL_AT) {
		t->err = fault_set(&t->fault, ENOSPC, 507, "disk_full", "The sandbox's disk is full.");
		return;
	}
	if (t->len + n > t->size) {
		t->size = (t->len + n) * 2;
		t->bytes = realloc(t->bytes, t->size);
	}
	memcpy(t->bytes + t->len, buf, n);
	t->len += n;
}

static void *in_main(void *arg)
{
	struct transfer *t = arg;
	struct core *c = t->core;
	char buf[65536];
	ssize_t n;

	while (!t->err && (n = bytepipe_hub_read(t->pipe, buf, sizeof(buf))) != -ENODATA) {
		if (n > 0)
			in_take(t, buf, (size_t)n);
		else if (n == 0)
			transfer_wait(t);
		else
			t->err = fault_set(&t->fault, EPIPE, 400, "body_incomplete",
					   "The upload ended early.");
	}
	bytepipe_on_change(t->pipe, NULL, NULL);
	bytepipe_hub_close(t->pipe, t->err ? &t->fault : NULL);
	pthread_mutex_lock(&t->lock);
	t->done = true;
	pthread_cond_broadcast(&t->wake);
	pthread_mutex_unlock(&t->lock);
	fake_thread_end(c);
	return NULL;
}

int core_file_put_begin(struct core *c, const char *owner, const char *sandbox_id, const char *path,
			struct file_put **ret, struct bytepipe **ret_in, struct fault *f)
{
	int err = fake_sandbox_check(c, owner, sandbox_id, f);
	struct file_put *h;

	if (err)
		return err;
	if (!strcmp(path, "dir"))
		return fault_set(f, EISDIR, 400, "is_a_directory", "dir is a directory.");
	h = calloc(1, sizeof(*h));
	h->t = transfer_new(c, path);
	*ret = h;
	*ret_in = h->t->pipe;
	fake_thread(c, in_main, h->t);
	return 0;
}

static bool file_replace(struct core *c, struct transfer *t)
{
	struct fake_file *file;
	bool created;

	pthread_mutex_lock(&c->lock);
	file = file_find(c, t->path);
	created = !file;
	if (created) {
		file = calloc(1, sizeof(*file));
		file->path = strdup(t->path);
		file->next = c->files;
		c->files = file;
	}
	free(file->bytes);
	file->bytes = t->bytes;
	file->len = t->len;
	t->bytes = NULL;
	pthread_mutex_unlock(&c->lock);
	return created;
}

int core_file_put_finish(struct file_put *h, json_t **ret, bool *ret_created, struct fault *f)
{
	struct transfer *t = h->t;
	int err;

	pthread_mutex_lock(&t->lock);
	while (!t->done)
		pthread_cond_wait(&t->wake, &t->lock);
	pthread_mutex_unlock(&t->lock);
	err = t->err;
	if (err) {
		*f = t->fault;
	} else {
		*ret = json_pack("{s:s, s:I}", "path", t->path, "size", (json_int_t)t->len);
		*ret_created = file_replace(t->core, t);
	}
	transfer_free(t);
	free(h);
	return err;
}

int core_file_delete(struct core *c, const char *owner, const char *sandbox_id, const char *path,
		     bool recursive, struct fault *f)
{
	int err = fake_sandbox_check(c, owner, sandbox_id, f);
	struct fake_file **at = &c->files, *gone;

	(void)recursive;
	if (err)
		return err;
	pthread_mutex_lock(&c->lock);
	while (*at && strcmp((*at)->path, path) != 0)
		at = &(*at)->next;
	gone = *at;
	if (gone) {
		*at = gone->next;
		free(gone->path);
		free(gone->bytes);
		free(gone);
	}
	pthread_mutex_unlock(&c->lock);
	return gone ? 0 : no_such_file(f, path);
}

int core_file_list(struct core *c, const char *owner, const char *sandbox_id, const char *path,
		   unsigned limit, const char *cursor, json_t **ret, struct fault *f)
{
	int err = fake_sandbox_check(c, owner, sandbox_id, f);
	json_t *entries;

	(void)path, (void)limit, (void)cursor;
	if (err)
		return err;
	entries = json_array();
	pthread_mutex_lock(&c->lock);
	for (struct fake_file *file = c->files; file; file = file->next)
		json_array_append_new(
			entries, json_pack("{s:s, s:I}", "name", file->path, "size", (json_int_t)file->len));
	pthread_mutex_unlock(&c->lock);
	*ret = json_pack("{s:o, s:n}", "entries", entries, "next");
	return 0;
}

void fake_files_free(struct core *c)
{
	for (struct fake_file *file = c->files, *next; file; file = next) {
		next = file->next;
		free(file->path);
		free(file->bytes);
		free(file);
	}
}
