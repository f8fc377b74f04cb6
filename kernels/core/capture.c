#include "core/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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

int capture_open(struct capture *c, struct iopub *io)
{
	int i, err = 0;

	*c = (struct capture){ .read_fd = { -1, -1 }, .write_fd = { -1, -1 }, .iopub = io, .discard = true };
	c->chunk = malloc(CAPTURE_CHUNK);
	if (!c->chunk)
		return -ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
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
	*c = (struct capture){ .read_fd = { -1, -1 }, .write_fd = { -1, -1 } };
}

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

static size_t drain_locked(struct capture *c, struct buf *text)
{
	return drain_one(c, 0, text) + drain_one(c, 1, text);
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
