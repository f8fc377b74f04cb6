/* What console.c (the device and its control queues) and console_port.c (one
 * port's bytes and clients) share. */
#ifndef CARREL_VMM_VIRTIO_CONSOLE_INNER_H
#define CARREL_VMM_VIRTIO_CONSOLE_INNER_H

#include "console.h"
#include "device.h"

/* Each from the guest's view: what goes in, then what goes out. The first port
 * comes before the control queues, the others after them. */
enum { QUEUE_CONTROL_IN = 2, QUEUE_CONTROL_OUT, QUEUES = 2 * (CONSOLE_PORTS_MAX + 1) };

/* What the driver said of a port, what it was told, and what it is yet to be
 * told, for want of a buffer. Saved in files. An opening is due when there is a
 * client of which it was not told. */
enum port_flag {
	PORT_READY = 1,
	PORT_OPEN = 2, /* by a program of the guest */
	PORT_TOLD_OPEN = 4,
	PORT_ADD_DUE = 8,
	PORT_NAME_DUE = 16,
	PORT_CLOSE_DUE = 32,
	PORT_FLAGS = 63,
};

struct console_port {
	struct virtio_device *device;
	unsigned id;
	char name[CONSOLE_NAME_MAX];
	int listen_fd;   /* watched while there is no client */
	int client_fd;   /* -1: none */
	uint32_t wanted; /* events watched of the client */
	unsigned flags;
	bool starved;      /* at the last try there was nowhere to put a client's bytes */
	bool blocked;      /* the client took no more */
	uint32_t out_done; /* bytes the client took of the next chain */
};

struct console {
	struct virtio_device device;
	unsigned count;
	struct console_port port[CONSOLE_PORTS_MAX];
};

/* The port of one of the queues for bytes; NULL: there is no such port. */
static inline struct console_port *port_of(struct console *c, unsigned queue)
{
	unsigned id = queue < QUEUE_CONTROL_IN ? 0 : queue / 2 - 1;

	return id < c->count ? &c->port[id] : NULL;
}

static inline struct virtio_queue *port_in(const struct console_port *p)
{
	return &p->device->queue[p->id ? 2 * p->id + 2 : 0];
}

static inline struct virtio_queue *port_out(const struct console_port *p)
{
	return port_in(p) + 1;
}

/* Tells the driver what is due, as far as it gave buffers. */
void console_tell(struct console *c);

/* o's name fits. port_end closes what it listens on. */
void port_init(struct console_port *p, struct virtio_device *d, unsigned id,
	       const struct console_port_options *o);
/* Waits for a client. */
int port_listen(struct console_port *p);
void port_end(struct console_port *p);

/* Moves bytes that a client sent, or that the guest did, as far as it goes. On
 * the main thread. */
void port_move_in(struct console_port *p);
void port_move_out(struct console_port *p);

#endif
