#include "core/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_pipe(struct capture *c, int i)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	c->read_fd[i] = fd[0];
	c->write_fd[i] = fd[1];
	/* Only the reading end: writers wait, as on any pipe. A refused size
	 * leaves a smaller pipe, which only means more reads. */
	fcntl(fd[0], F_SETFL, O_NONBLOCK);
	fcntl(fd[0], F_SETPIPE_SZ, CAPTURE_PIPE_SIZE);
	return dup2(fd[1], i + 1) < 0 ? -errno : 0;
}

int capture_open(struct capture *c, struct iopub *io, struct unsent_line *line)
{
	int i, err = 0;

	*c = (struct capture){ .read_fd = { -1, -1 }, .write_fd = { -1, -1 }, .iopub = io, .discard = true };
	c->line = line ? line : c->own_line;
	c->chunk = malloc(CAPTURE_CHUNK);
	if (!c->chunk)
		return -ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->line_lock, NULL);
	for (i = 0; i < 2 && !err; i++)
		err = open_pipe(c, i);
	if (err)
		capture_close(c);
	return err;
}

void capture_close(struct capture *c)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (c->read_fd[i] >= 0)
			close(c->read_fd[i]);
		if (c->write_fd[i] >= 0)
			close(c->write_fd[i]);
	}
	parent_unref(c->parent);
	free(c->chunk);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->line_lock);
	*c = (struct capture){ .read_fd = { -1, -1 }, .write_fd = { -1, -1 } };
}

/* ---- beginnings of lines ---- */

bool capture_hold(struct capture *c, int i, const char *data, size_t n)
{
	struct unsent_line *line = &c->line[i];
	bool held, first;

	pthread_mutex_lock(&c->line_lock);
	/* Text of the other stream was written before this. */
	held = n > 0 && data[n - 1] != '\n' && line->n + n <= UNSENT_LINE_MAX && c->line[!i].n == 0;
	first = held && line->n == 0;
	if (held) {
		memcpy(line->text + line->n, data, n);
		line->n += n;
	}
	pthread_mutex_unlock(&c->line_lock);
	if (first && c->iopub)
		iopub_expect_text(c->iopub);
	return held;
}

size_t capture_take_line(struct capture *c, int i, char *out)
{
	size_t n;

	pthread_mutex_lock(&c->line_lock);
	n = c->line[i].n;
	memcpy(out, c->line[i].text, n);
	c->line[i].n = 0;
	pthread_mutex_unlock(&c->line_lock);
	return n;
}

void capture_fork_prepare(struct capture *c)
{
	pthread_mutex_lock(&c->line_lock);
}

void capture_fork_parent(struct capture *c)
{
	pthread_mutex_unlock(&c->line_lock);
}

void capture_fork_child(struct capture *c)
{
	/* The parent will write what is kept. */
	c->own_line[0].n = c->own_line[1].n = 0;
	c->line = c->own_line;
	pthread_mutex_unlock(&c->line_lock);
	/* Its thread is not here, and may have been holding its lock. */
	c->iopub = NULL;
}

/* ---- reading ---- */

static void queue_text(struct capture *c, int i, struct buf *text)
{
	if (text->len > 0 && !c->discard)
		iopub_put_text(c->iopub, i, c->parent, text->data, text->len);
	text->len = 0;
}

static size_t drain_one(struct capture *c, int i, struct buf *text)
{
	size_t total = 0;
	ssize_t n;

	while (total < CAPTURE_DRAIN_MAX) {
		n = read(c->read_fd[i], c->chunk, CAPTURE_CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		total += (size_t)n;
		utf8_feed(&c->utf8[i], c->chunk, (size_t)n, text);
		queue_text(c, i, text);
		/* A short read emptied the pipe. */
		if (n < CAPTURE_CHUNK)
			break;
	}
	return total;
}

/* What was kept was written after all that is in the pipe: so nobody may keep
 * more between the last read and the taking. */
static size_t drain_held(struct capture *c, int i, struct buf *text)
{
	struct unsent_line *line = &c->line[i];
	size_t n = 0;

	pthread_mutex_lock(&c->line_lock);
	if (line->n > 0) {
		n = drain_one(c, i, text) + line->n;
		utf8_feed(&c->utf8[i], line->text, line->n, text);
		queue_text(c, i, text);
		line->n = 0;
	}
	pthread_mutex_unlock(&c->line_lock);
	return n;
}

static size_t drain_locked(struct capture *c, struct buf *text)
{
	size_t n = 0;
	int i;

	for (i = 0; i < 2; i++) {
		n += drain_one(c, i, text);
		n += drain_held(c, i, text);
	}
	return n;
}

size_t capture_drain(struct capture *c)
{
	BUF_AUTO text = { 0 };
	size_t n;

	pthread_mutex_lock(&c->lock);
	n = drain_locked(c, &text);
	pthread_mutex_unlock(&c->lock);
	return n;
}

void capture_set_parent(struct capture *c, struct parent *parent, bool discard)
{
	BUF_AUTO text = { 0 };
	int i;

	pthread_mutex_lock(&c->lock);
	drain_locked(c, &text);
	for (i = 0; i < 2; i++) {
		utf8_end(&c->utf8[i], &text);
		queue_text(c, i, &text);
	}
	parent_ref(parent);
	parent_unref(c->parent);
	c->parent = parent;
	c->discard = discard;
	pthread_mutex_unlock(&c->lock);
}

struct parent *capture_parent(struct capture *c, bool *ret_discard)
{
	struct parent *parent;

	pthread_mutex_lock(&c->lock);
	parent = parent_ref(c->parent);
	*ret_discard = c->discard;
	pthread_mutex_unlock(&c->lock);
	return parent;
}
