#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Highest descriptor that can be watched: what the jail lets the monitor have. */
enum { LOOP_FD_MAX = 256 };

struct watch {
	loop_fn *fn; /* NULL: not watched */
	void *arg;
};

struct loop {
	int epoll_fd, stop_fd;
	pthread_mutex_t *lock;
	struct watch watches[LOOP_FD_MAX];
};

int loop_new(pthread_mutex_t *lock, struct loop **ret)
{
	struct epoll_event stop = { .events = EPOLLIN };
	struct loop *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	l->lock = lock;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	stop.data.fd = l->stop_fd;
	if (l->epoll_fd < 0 || l->stop_fd < 0 ||
	    epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->stop_fd, &stop) != 0) {
		err = -errno;
		loop_free(l);
		return err;
	}
	*ret = l;
	return 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	if (l->epoll_fd >= 0)
		close(l->epoll_fd);
	if (l->stop_fd >= 0)
		close(l->stop_fd);
	free(l);
}

int loop_watch(struct loop *l, int fd, uint32_t events, loop_fn *fn, void *arg)
{
	struct epoll_event event = { .events = events, .data.fd = fd };
	int op;

	if (fd < 0 || fd >= LOOP_FD_MAX)
		return -EBADF;
	op = l->watches[fd].fn ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
	if (epoll_ctl(l->epoll_fd, op, fd, &event) != 0)
		return -errno;
	l->watches[fd] = (struct watch){ fn, arg };
	return 0;
}

void loop_unwatch(struct loop *l, int fd)
{
	if (fd < 0 || fd >= LOOP_FD_MAX || !l->watches[fd].fn)
		return;
	epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	l->watches[fd] = (struct watch){ 0 };
}

static void dispatch(struct loop *l, const struct epoll_event *event)
{
	struct watch w;

	pthread_mutex_lock(l->lock);
	w = l->watches[event->data.fd];
	if (w.fn)
		w.fn(w.arg, event->events);
	pthread_mutex_unlock(l->lock);
}

/* One event a round: a second one could be of a descriptor that the first one's
 * callback closed. epoll hands ready descriptors out in turn, so none starves. */
int loop_run(struct loop *l)
{
	struct epoll_event event;
	int n;

	for (;;) {
		n = epoll_wait(l->epoll_fd, &event, 1, -1);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			continue;
		if (event.data.fd == l->stop_fd)
			return 0;
		dispatch(l, &event);
	}
}

void loop_stop(struct loop *l)
{
	uint64_t one = 1;
	ssize_t n;

	/* Only a counter at its end could refuse, and then it is readable anyway. */
	do
		n = write(l->stop_fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}
