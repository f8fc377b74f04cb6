#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "console_inner.h"
#include "vmm/machine/loop.h"

/* Of a new client; with no events, its end is still waited for. */
#define NOT_WATCHED UINT32_MAX

static void client_event(void *arg, uint32_t events);
static void listen_event(void *arg, uint32_t events);

int port_listen(struct console_port *p)
{
	return loop_watch(p->device->loop, p->listen_fd, EPOLLIN, listen_event, p);
}

static void port_dead(const struct console_port *p, int err)
{
	fprintf(stderr, "carrel-vmm: console: port %s takes no more clients: %s\n", p->name, strerror(-err));
}

/* The driver hears of it before it hears of the next one. */
static void client_drop(struct console_port *p)
{
	int err;

	loop_unwatch(p->device->loop, p->client_fd);
	close(p->client_fd);
	p->client_fd = -1;
	p->blocked = false;
	p->out_done = 0;
	if (p->flags & PORT_TOLD_OPEN)
		p->flags |= PORT_CLOSE_DUE;
	console_tell((struct console *)p->device);
	virtio_kick_later(port_out(p)); /* what is in there was for this client */
	err = port_listen(p);
	if (err)
		port_dead(p, err);
}

/* Nothing is watched that could not be served: epoll would report it for ever.
 * A client's end is reported always, and ends it. */
static void client_watch(struct console_port *p)
{
	uint32_t wanted = (p->starved ? 0u : (uint32_t)EPOLLIN) | (p->blocked ? (uint32_t)EPOLLOUT : 0u);

	if (p->client_fd < 0 || wanted == p->wanted)
		return;
	if (loop_watch(p->device->loop, p->client_fd, wanted, client_event, p) != 0)
		client_drop(p);
	else
		p->wanted = wanted;
}

/* Into one buffer of the guest's. False: not now, and starved says whether for
 * want of one. */
static bool move_in_one(struct console_port *p)
{
	struct virtio_queue *q = port_in(p);
	struct virtio_chain c;
	ssize_t n;

	p->starved = !(p->flags & PORT_OPEN) || !virtio_peek(q, &c);
	if (p->starved)
		return false;
	if (c.outs > 0) {
		virtio_device_break(p->device, "a buffer for a port's bytes has bytes of its own");
		return false;
	}
	n = readv(p->client_fd, c.iov, (int)c.ins);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		client_drop(p);
		return false;
	}
	chain_mark_dirty(&c, q->memory, (uint32_t)n);
	virtqueue_advance(q);
	virtqueue_push(q, c.head, (uint32_t)n);
	return true;
}

void port_move_in(struct console_port *p)
{
	for (unsigned n = 0; n < VIRTIO_BUDGET && p->client_fd >= 0 && move_in_one(p); n++)
		;
	virtio_notify(port_in(p));
	client_watch(p);
}

/* Sends what is left of the chain; true if the chain is done with. */
static bool chain_send(struct console_port *p, struct virtio_chain *c)
{
	struct msghdr message = { .msg_iov = c->iov, .msg_iovlen = c->outs };
	ssize_t n;

	/* The driver may have changed it since the first part went out. */
	chain_skip_out(c, p->out_done);
	if (p->client_fd < 0 || c->out_len == 0)
		return true;
	n = sendmsg(p->client_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		client_drop(p);
		return true;
	}
	if (n > 0)
		p->out_done += (uint32_t)n;
	p->blocked = n < (ssize_t)c->out_len;
	return !p->blocked;
}

static bool move_out_one(struct virtio_queue *q)
{
	struct console_port *p = port_of((struct console *)q->device, q->index);
	struct virtio_chain c;

	p->blocked = false;
	if (!virtio_peek(q, &c))
		return false;
	if (c.ins > 0) {
		virtio_device_break(p->device, "a port's bytes have room for more");
		return false;
	}
	if (!chain_send(p, &c))
		return false;
	p->out_done = 0;
	virtqueue_advance(q);
	virtqueue_push(q, c.head, 0);
	return true;
}

void port_move_out(struct console_port *p)
{
	virtio_serve(port_out(p), VIRTIO_BUDGET, move_out_one);
	client_watch(p);
}

/* A client that is gone for good may have left bytes: what the guest has room
 * for now, it gets. */
static void client_event(void *arg, uint32_t events)
{
	struct console_port *p = arg;

	if (p->client_fd < 0)
		return;
	if (events & EPOLLOUT)
		port_move_out(p);
	port_move_in(p);
	if (events & (EPOLLHUP | EPOLLERR) && p->client_fd >= 0 && p->starved)
		client_drop(p);
}

static void listen_event(void *arg, uint32_t events)
{
	struct console_port *p = arg;
	int fd = accept4(p->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)events;
	if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return;
	loop_unwatch(p->device->loop, p->listen_fd);
	if (fd < 0) {
		port_dead(p, -errno);
		return;
	}
	p->client_fd = fd;
	p->wanted = NOT_WATCHED;
	console_tell((struct console *)p->device);
	port_move_in(p);
}

void port_init(struct console_port *p, struct virtio_device *d, unsigned id,
	       const struct console_port_options *o)
{
	p->device = d;
	p->id = id;
	p->listen_fd = o->listen_fd;
	p->client_fd = -1;
	strcpy(p->name, o->name);
}

void port_end(struct console_port *p)
{
	if (p->client_fd >= 0) {
		loop_unwatch(p->device->loop, p->client_fd);
		close(p->client_fd);
	}
	loop_unwatch(p->device->loop, p->listen_fd);
	close(p->listen_fd);
}
