#include "spawn_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "connect.h"

struct packet {
	struct packet *next;
	struct spawn_request request;
	int fds[SPAWN_FD_COUNT];
	unsigned nfds;
};

struct spawn_link {
	uv_loop_t *loop;
	const char *path;
	const struct spawn_link_ops *ops;
	void *arg;
	uv_poll_t *poll; /* NULL: not connected */
	int fd;
	uv_timer_t timer;
	uint64_t serial;
	struct packet *first, **last;
	unsigned queued;
	bool freed;
};

static void link_connect(struct spawn_link *l);

static void packet_free(struct packet *p)
{
	for (unsigned i = 0; i < p->nfds; i++)
		close(p->fds[i]);
	free(p);
}

static void queue_drop(struct spawn_link *l)
{
	while (l->first) {
		struct packet *p = l->first;

		l->first = p->next;
		packet_free(p);
	}
	l->last = &l->first;
	l->queued = 0;
}

static void poll_closed(uv_handle_t *handle)
{
	close((int)(intptr_t)handle->data);
	free(handle);
}

static void link_disconnect(struct spawn_link *l)
{
	if (!l->poll)
		return;
	l->poll->data = (void *)(intptr_t)l->fd;
	uv_close((uv_handle_t *)l->poll, poll_closed);
	l->poll = NULL;
	l->fd = -1;
	queue_drop(l);
}

static void timer_fired(uv_timer_t *timer)
{
	link_connect(timer->data);
}

static void link_lost(struct spawn_link *l)
{
	link_disconnect(l);
	uv_timer_start(&l->timer, timer_fired, SPAWN_LINK_RETRY_MS, 0);
}

static int packet_send(struct spawn_link *l, const struct packet *p)
{
	union {
		char bytes[CMSG_SPACE(SPAWN_FD_COUNT * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)&p->request, sizeof(p->request) };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (p->nfds > 0) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(p->nfds * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(p->nfds * sizeof(int));
		memcpy(CMSG_DATA(&control.align), p->fds, p->nfds * sizeof(int));
	}
	return sendmsg(l->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void poll_ready(uv_poll_t *poll, int status, int events);

/* Sends until the socket is full; 0 or the error that ends the connection. */
static int queue_flush(struct spawn_link *l)
{
	while (l->first) {
		struct packet *p = l->first;
		int err = packet_send(l, p);

		if (err == -EAGAIN || err == -EINTR)
			break;
		if (err)
			return err;
		l->first = p->next;
		if (!l->first)
			l->last = &l->first;
		l->queued--;
		packet_free(p);
	}
	return uv_poll_start(l->poll, UV_READABLE | (l->first ? UV_WRITABLE : 0), poll_ready);
}

static bool reply_valid(const struct spawn_reply *r, ssize_t n)
{
	return n == (ssize_t)sizeof(*r) && r->version == SPAWN_VERSION &&
	       memchr(r->id, '\0', sizeof(r->id)) && memchr(r->reason, '\0', sizeof(r->reason)) &&
	       memchr(r->message, '\0', sizeof(r->message));
}

static void poll_ready(uv_poll_t *poll, int status, int events)
{
	struct spawn_link *l = poll->data;
	struct spawn_reply reply;
	ssize_t n = status < 0 ? 0 : recv(l->fd, &reply, sizeof(reply), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		if ((events & UV_WRITABLE) && queue_flush(l) != 0)
			link_lost(l);
		return;
	}
	if (!reply_valid(&reply, n)) {
		link_lost(l);
		return;
	}
	l->ops->reply(&reply, l->arg);
}

static int link_open(struct spawn_link *l)
{
	uv_poll_t *poll;
	int fd = connect_path(l->path, SOCK_SEQPACKET), err;

	if (fd < 0)
		return fd;
	poll = malloc(sizeof(*poll));
	err = poll ? uv_poll_init(l->loop, poll, fd) : -ENOMEM;
	if (err) {
		free(poll);
		close(fd);
		return err;
	}
	poll->data = l;
	l->poll = poll;
	l->fd = fd;
	return uv_poll_start(poll, UV_READABLE, poll_ready);
}

static void link_connect(struct spawn_link *l)
{
	if (l->freed || l->poll)
		return;
	if (link_open(l) != 0) {
		link_lost(l);
		return;
	}
	l->ops->connected(l->arg);
}

int spawn_link_new(uv_loop_t *loop, const char *path, const struct spawn_link_ops *ops, void *arg,
		   struct spawn_link **ret)
{
	struct spawn_link *l;

	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return -ENAMETOOLONG;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	*l = (struct spawn_link){ .loop = loop, .path = path, .ops = ops, .arg = arg, .fd = -1 };
	l->last = &l->first;
	uv_timer_init(loop, &l->timer);
	l->timer.data = l;
	*ret = l;
	link_connect(l);
	return 0;
}

bool spawn_link_connected(const struct spawn_link *l)
{
	return l->poll != NULL;
}

static struct packet *packet_new(const struct spawn_request *request, const int *fds, unsigned nfds)
{
	struct packet *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->request = *request;
	for (; p->nfds < nfds; p->nfds++) {
		p->fds[p->nfds] = fcntl(fds[p->nfds], F_DUPFD_CLOEXEC, 0);
		if (p->fds[p->nfds] < 0) {
			packet_free(p);
			return NULL;
		}
	}
	return p;
}

int spawn_link_send(struct spawn_link *l, struct spawn_request *request, const int *fds, unsigned nfds)
{
	struct packet *p;

	if (!l->poll)
		return -ENOTCONN;
	if (l->queued >= SPAWN_LINK_QUEUE_MAX)
		return -EAGAIN;
	request->version = SPAWN_VERSION;
	request->serial = ++l->serial;
	p = packet_new(request, fds, nfds);
	if (!p)
		return errno == EMFILE ? -EMFILE : -ENOMEM;
	*l->last = p;
	l->last = &p->next;
	l->queued++;
	/* A lost connection is noticed, and told, by the poll. */
	queue_flush(l);
	return 0;
}

static void timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void spawn_link_free(struct spawn_link *l)
{
	if (!l)
		return;
	l->freed = true;
	link_disconnect(l);
	uv_close((uv_handle_t *)&l->timer, timer_closed);
}
