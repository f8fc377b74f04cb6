#include "link_uv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	LINK_UV_READ = 64 * 1024,
	/* Rounds of reading and of writing before the loop's others get their turn. The host reads once: what came is
	 * parsed and kept right away, milliseconds for 64 KiB of a flood, and another sandbox's cell takes several turns. */
	LINK_UV_ROUNDS = 8,
	LINK_UV_SOCKET_READS = 1,
};

struct link_uv {
	struct link *l;
	enum link_uv_kind kind;
	int fd;
	/* A port's readiness comes from here, edge-triggered: without a peer it
	 * hangs up and is readable for ever, which level-triggered would spin. */
	int edges;
	uv_poll_t poll;
	uv_idle_t flush; /* runs once after link_uv_kick(), before the loop blocks */
	uv_timer_t timer;
	unsigned handles;
	bool want_writable; /* a socket is watched for room */
	bool absent;        /* a port has no peer: the last read said end of file */
	bool closing, dead;
	void (*lost)(struct link_uv *b, int err, void *arg);
	void *arg;
};

static void on_poll(uv_poll_t *poll, int status, int events);

/* False once the owner closed it: b may not be used further by the caller. */
static bool link_uv_alive(const struct link_uv *b)
{
	return !b->closing && !b->dead;
}

static void link_uv_lose(struct link_uv *b, int err)
{
	if (!link_uv_alive(b))
		return;
	b->dead = true;
	uv_poll_stop(&b->poll);
	uv_idle_stop(&b->flush);
	uv_timer_stop(&b->timer);
	link_drop(b->l, err == -ECONNRESET ? "the connection was closed by the other side" : strerror(-err));
	if (!b->closing && b->lost)
		b->lost(b, err, b->arg);
}

/* Makes the loop call on_poll() again soon although nothing changed. */
static void link_uv_again(struct link_uv *b)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };

	if (b->kind == LINK_UV_PORT)
		epoll_ctl(b->edges, EPOLL_CTL_MOD, b->fd, &ev);
}

/* The port's other end went: bytes under way are lost, so is the session. */
static void link_uv_absent(struct link_uv *b)
{
	if (b->absent)
		return;
	b->absent = true;
	link_drop(b->l, "nobody has the other end of the port open");
}

/* Returns false when reading has to stop: nothing more there, or b is gone. */
static bool link_uv_read_some(struct link_uv *b)
{
	uint8_t buf[LINK_UV_READ];
	ssize_t n = read(b->fd, buf, sizeof(buf));

	if (n > 0) {
		b->absent = false;
		/* A broken peer loses its session and is told by down(). */
		link_receive(b->l, buf, (size_t)n);
		/* A stream has no more at the moment when it gave less than asked. */
		return link_uv_alive(b) && (b->kind == LINK_UV_PORT || (size_t)n == sizeof(buf));
	}
	if (n == 0 && b->kind == LINK_UV_PORT)
		link_uv_absent(b);
	else if (n == 0)
		link_uv_lose(b, -ECONNRESET);
	else if (errno == EINTR)
		return true;
	else if (errno == EAGAIN)
		b->absent = false;
	else
		link_uv_lose(b, -errno);
	return false;
}

static void link_uv_read(struct link_uv *b)
{
	const int rounds = b->kind == LINK_UV_SOCKET ? LINK_UV_SOCKET_READS : LINK_UV_ROUNDS;

	for (int i = 0; i < rounds; i++)
		if (!link_uv_read_some(b))
			return;
	link_uv_again(b);
}

static ssize_t link_uv_write_some(struct link_uv *b, const uint8_t *bytes, size_t len)
{
	ssize_t n;

	do {
		if (b->kind == LINK_UV_SOCKET)
			n = send(b->fd, bytes, len, MSG_NOSIGNAL);
		else
			n = write(b->fd, bytes, len);
	} while (n < 0 && errno == EINTR);
	return n;
}

static void link_uv_watch(struct link_uv *b, bool writable)
{
	/* A port's edges tell both. */
	if (b->kind == LINK_UV_PORT || b->want_writable == writable)
		return;
	b->want_writable = writable;
	uv_poll_start(&b->poll, UV_READABLE | (writable ? UV_WRITABLE : 0), on_poll);
}

static void link_uv_write(struct link_uv *b)
{
	if (b->absent)
		return;
	for (int i = 0; i < LINK_UV_ROUNDS; i++) {
		const uint8_t *bytes;
		size_t len = link_pending(b->l, &bytes);
		ssize_t n;

		if (!link_uv_alive(b))
			return;
		if (len == 0) {
			link_uv_watch(b, false);
			return;
		}
		n = link_uv_write_some(b, bytes, len);
		if (n < 0 && errno != EAGAIN) {
			/* A writer's name for what a reader calls reset. */
			link_uv_lose(b, errno == EPIPE ? -ECONNRESET : -errno);
			return;
		}
		if (n < 0) {
			link_uv_watch(b, true);
			return;
		}
		link_sent(b->l, (size_t)n);
	}
	link_uv_watch(b, true);
	link_uv_again(b);
}

static void on_timer(uv_timer_t *timer);

static void link_uv_tick(struct link_uv *b)
{
	unsigned due = link_tick(b->l, uv_now(b->timer.loop));

	if (link_uv_alive(b))
		uv_timer_start(&b->timer, on_timer, due, 0);
}

static void link_uv_turn(struct link_uv *b)
{
	if (link_uv_alive(b))
		link_uv_write(b);
	if (link_uv_alive(b))
		link_uv_tick(b);
}

/* libuv says EBADF for every error condition of a descriptor. */
static int link_uv_error(const struct link_uv *b, int status)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (b->kind != LINK_UV_SOCKET || getsockopt(b->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		return status;
	return err && err != EPIPE ? -err : -ECONNRESET;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct link_uv *b = poll->data;
	struct epoll_event ev;

	(void)events;
	if (status < 0) {
		link_uv_lose(b, link_uv_error(b, status));
		return;
	}
	if (b->kind == LINK_UV_PORT)
		epoll_wait(b->edges, &ev, 1, 0);
	link_uv_tick(b);
	if (link_uv_alive(b))
		link_uv_read(b);
	link_uv_turn(b);
}

static void on_timer(uv_timer_t *timer)
{
	struct link_uv *b = timer->data;

	link_uv_tick(b);
	/* An edge that a machine lost while it was stopped costs a tick, not the session. */
	if (link_uv_alive(b) && b->kind == LINK_UV_PORT)
		link_uv_read(b);
	link_uv_turn(b);
}

static void on_flush(uv_idle_t *idle)
{
	uv_idle_stop(idle);
	link_uv_turn(idle->data);
}

void link_uv_kick(struct link_uv *b)
{
	/* Idle, not prepare: started while the loop runs its prepare handles, a
	 * prepare handle would wait until after the loop blocked. */
	if (b && link_uv_alive(b))
		uv_idle_start(&b->flush, on_flush);
}

static int link_uv_edges(struct link_uv *b)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };

	b->edges = epoll_create1(EPOLL_CLOEXEC);
	if (b->edges < 0)
		return -errno;
	return epoll_ctl(b->edges, EPOLL_CTL_ADD, b->fd, &ev) < 0 ? -errno : 0;
}

static int link_uv_prepare(struct link_uv *b)
{
	int flags = fcntl(b->fd, F_GETFL);

	if (flags < 0 || fcntl(b->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return b->kind == LINK_UV_PORT ? link_uv_edges(b) : 0;
}

static void link_uv_close_fds(struct link_uv *b)
{
	if (b->edges >= 0)
		close(b->edges);
	close(b->fd);
	b->edges = b->fd = -1;
}

int link_uv_open(uv_loop_t *loop, struct link *l, int fd, enum link_uv_kind kind,
		 void (*lost)(struct link_uv *b, int err, void *arg), void *arg, struct link_uv **ret)
{
	struct link_uv *b = calloc(1, sizeof(*b));
	int err;

	if (!b) {
		close(fd);
		return -ENOMEM;
	}
	*b = (struct link_uv){ .l = l, .kind = kind, .fd = fd, .edges = -1, .lost = lost, .arg = arg };
	err = link_uv_prepare(b);
	if (!err)
		err = uv_poll_init(loop, &b->poll, kind == LINK_UV_PORT ? b->edges : fd);
	if (err) {
		link_uv_close_fds(b);
		free(b);
		return err;
	}
	uv_idle_init(loop, &b->flush);
	uv_timer_init(loop, &b->timer);
	b->poll.data = b->flush.data = b->timer.data = b;
	b->handles = 3;
	uv_poll_start(&b->poll, UV_READABLE, on_poll);
	*ret = b;
	/* What the link had to say before, and its first tick. */
	link_uv_kick(b);
	return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct link_uv *b = handle->data;

	if (--b->handles == 0)
		free(b);
}

void link_uv_close(struct link_uv *b)
{
	if (!b || b->closing)
		return;
	b->closing = true;
	uv_close((uv_handle_t *)&b->poll, on_handle_closed);
	uv_close((uv_handle_t *)&b->flush, on_handle_closed);
	uv_close((uv_handle_t *)&b->timer, on_handle_closed);
	link_uv_close_fds(b);
}
