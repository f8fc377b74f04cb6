#include "bytepipe.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct bytepipe {
	pthread_mutex_t
		lock; /* everything below; changed() runs under it, so that no call outlives hub_close() */
	unsigned refs;
	int wake; /* eventfd: the hub did something the worker may wait for */
	char *ring;
	size_t at, len;
	bool worker_closed, hub_closed;
	bool has_fault;
	struct fault fault; /* of whichever side closed with one first */
	void (*changed)(void *arg);
	void *arg;
};

struct bytepipe *bytepipe_new(void)
{
	struct bytepipe *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->ring = malloc(BYTEPIPE_MAX);
	p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!p->ring || p->wake < 0) {
		if (p->wake >= 0)
			close(p->wake);
		free(p->ring);
		free(p);
		return NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
	p->refs = 2;
	return p;
}

/* With the lock held, which it drops. */
static void unref_unlock(struct bytepipe *p)
{
	bool last = --p->refs == 0;

	pthread_mutex_unlock(&p->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&p->lock);
	close(p->wake);
	free(p->ring);
	free(p);
}

static void wake_worker(struct bytepipe *p)
{
	/* Fails only when it is readable already. */
	(void)!write(p->wake, &(uint64_t){ 1 }, sizeof(uint64_t));
}

static void tell_hub(struct bytepipe *p)
{
	if (p->changed)
		p->changed(p->arg);
}

static size_t ring_put(struct bytepipe *p, const char *bytes, size_t len)
{
	size_t room = BYTEPIPE_MAX - p->len, end = (p->at + p->len) % BYTEPIPE_MAX, first;

	if (len > room)
		len = room;
	first = len < BYTEPIPE_MAX - end ? len : BYTEPIPE_MAX - end;
	memcpy(p->ring + end, bytes, first);
	memcpy(p->ring, bytes + first, len - first);
	p->len += len;
	return len;
}

static size_t ring_get(struct bytepipe *p, char *bytes, size_t size)
{
	size_t n = size < p->len ? size : p->len;
	size_t first = n < BYTEPIPE_MAX - p->at ? n : BYTEPIPE_MAX - p->at;

	memcpy(bytes, p->ring + p->at, first);
	memcpy(bytes + first, p->ring, n - first);
	p->at = (p->at + n) % BYTEPIPE_MAX;
	p->len -= n;
	return n;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Waits for the hub, without the lock. */
static int worker_wait(struct bytepipe *p, int poll_fd, int64_t until)
{
	struct pollfd fds[2] = { { .fd = p->wake, .events = POLLIN },
				 { .fd = poll_fd, .events = POLLRDHUP } };
	int64_t left = until < 0 ? -1 : until - now_ms();
	int n;

	if (until >= 0 && left <= 0)
		return -ETIMEDOUT;
	n = poll(fds, poll_fd >= 0 ? 2 : 1, until < 0 ? -1 : (int)left);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (poll_fd >= 0 && (fds[1].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)))
		return -EPIPE;
	(void)!read(p->wake, &(uint64_t){ 0 }, sizeof(uint64_t));
	return 0;
}

ssize_t bytepipe_read(struct bytepipe *p, void *buf, size_t size, int poll_fd, int timeout_ms)
{
	int64_t until = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
	size_t n;
	bool ended;
	int err;

	for (;;) {
		pthread_mutex_lock(&p->lock);
		n = ring_get(p, buf, size);
		ended = p->hub_closed;
		if (n > 0)
			tell_hub(p);
		pthread_mutex_unlock(&p->lock);
		if (n > 0 || ended)
			return (ssize_t)n;
		err = worker_wait(p, poll_fd, until);
		if (err < 0)
			return err;
	}
}

int bytepipe_write(struct bytepipe *p, const void *buf, size_t len, int poll_fd, int timeout_ms)
{
	int64_t until = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
	const char *bytes = buf;
	size_t n;
	bool gone;
	int err;

	while (len > 0) {
		pthread_mutex_lock(&p->lock);
		gone = p->hub_closed;
		n = gone ? 0 : ring_put(p, bytes, len);
		if (n > 0)
			tell_hub(p);
		pthread_mutex_unlock(&p->lock);
		if (gone)
			return -EPIPE;
		bytes += n;
		len -= n;
		err = len > 0 && n == 0 ? worker_wait(p, poll_fd, until) : 0;
		if (err < 0)
			return err;
	}
	return 0;
}

static void fault_keep(struct bytepipe *p, const struct fault *fault)
{
	if (!fault || p->has_fault)
		return;
	p->has_fault = true;
	p->fault = *fault;
}

void bytepipe_worker_close(struct bytepipe *p, const struct fault *fault)
{
	pthread_mutex_lock(&p->lock);
	fault_keep(p, fault);
	p->worker_closed = true;
	tell_hub(p);
	unref_unlock(p);
}

bool bytepipe_fault(struct bytepipe *p, struct fault *ret)
{
	bool has;

	pthread_mutex_lock(&p->lock);
	has = p->has_fault;
	if (has)
		*ret = p->fault;
	pthread_mutex_unlock(&p->lock);
	return has;
}

void bytepipe_on_change(struct bytepipe *p, void (*changed)(void *arg), void *arg)
{
	pthread_mutex_lock(&p->lock);
	p->changed = changed;
	p->arg = arg;
	pthread_mutex_unlock(&p->lock);
}

size_t bytepipe_hub_write(struct bytepipe *p, const void *buf, size_t len)
{
	size_t n;

	pthread_mutex_lock(&p->lock);
	n = ring_put(p, buf, len);
	if (n > 0)
		wake_worker(p);
	pthread_mutex_unlock(&p->lock);
	return n;
}

ssize_t bytepipe_hub_read(struct bytepipe *p, void *buf, size_t size)
{
	ssize_t n;

	pthread_mutex_lock(&p->lock);
	n = (ssize_t)ring_get(p, buf, size);
	if (n > 0)
		wake_worker(p);
	else if (p->worker_closed)
		n = p->has_fault ? -EPIPE : -ENODATA;
	pthread_mutex_unlock(&p->lock);
	return n;
}

bool bytepipe_worker_gone(struct bytepipe *p)
{
	bool gone;

	pthread_mutex_lock(&p->lock);
	gone = p->worker_closed;
	pthread_mutex_unlock(&p->lock);
	return gone;
}

void bytepipe_hub_close(struct bytepipe *p, const struct fault *fault)
{
	pthread_mutex_lock(&p->lock);
	fault_keep(p, fault);
	p->hub_closed = true;
	p->changed = NULL;
	wake_worker(p);
	unref_unlock(p);
}
