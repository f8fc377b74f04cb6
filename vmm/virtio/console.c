#include "console.h"

#include <assert.h>
#include <errno.h>
#include <linux/virtio_console.h>
#include <linux/virtio_ids.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console_inner.h"

/* A control message, and behind it the name in one that tells it. */
struct message {
	struct virtio_console_control control;
	char name[CONSOLE_NAME_MAX];
};
static_assert(offsetof(struct message, name) == 8, "on the wire");
static_assert(offsetof(struct console, device) == 0, "a device is a console");

static struct console *console_of(struct virtio_device *d)
{
	return (struct console *)d;
}

/* What is to be told next of a port, or -1. */
static int due_next(const struct console_port *p)
{
	if (p->flags & PORT_ADD_DUE)
		return VIRTIO_CONSOLE_PORT_ADD;
	if (p->flags & PORT_NAME_DUE)
		return VIRTIO_CONSOLE_PORT_NAME;
	if (p->flags & PORT_CLOSE_DUE ||
	    ((p->flags & (PORT_READY | PORT_TOLD_OPEN)) == PORT_READY && p->client_fd >= 0))
		return VIRTIO_CONSOLE_PORT_OPEN;
	return -1;
}

static void due_done(struct console_port *p, int event)
{
	if (event == VIRTIO_CONSOLE_PORT_ADD)
		p->flags &= ~(unsigned)PORT_ADD_DUE;
	else if (event == VIRTIO_CONSOLE_PORT_NAME)
		p->flags &= ~(unsigned)PORT_NAME_DUE;
	else if (p->flags & PORT_CLOSE_DUE)
		p->flags &= ~(unsigned)(PORT_CLOSE_DUE | PORT_TOLD_OPEN);
	else
		p->flags |= PORT_TOLD_OPEN;
}

/* False: there is nothing to tell of this port, or no buffer for it. */
static bool tell_one(struct console *c, struct console_port *p)
{
	struct virtio_queue *q = &c->device.queue[QUEUE_CONTROL_IN];
	struct virtio_chain chain;
	struct message m = { .control = { .id = p->id } };
	uint32_t len = sizeof(m.control);
	int event = due_next(p);

	if (event < 0 || !virtio_pop(q, &chain))
		return false;
	m.control.event = (uint16_t)event;
	m.control.value = event != VIRTIO_CONSOLE_PORT_OPEN || !(p->flags & PORT_CLOSE_DUE);
	if (event == VIRTIO_CONSOLE_PORT_NAME) {
		strcpy(m.name, p->name);
		len += (uint32_t)strlen(m.name);
	}
	if (chain.outs > 0 || chain_fill(&chain, q->memory, &m, len) < len) {
		virtio_device_break(&c->device, "a buffer for control messages holds none");
		return false;
	}
	virtqueue_push(q, chain.head, len);
	due_done(p, event);
	return true;
}

void console_tell(struct console *c)
{
	for (unsigned i = 0; i < c->count; i++)
		while (tell_one(c, &c->port[i]))
			;
	virtio_notify(&c->device.queue[QUEUE_CONTROL_IN]);
}

static void flags_set(struct console_port *p, unsigned flags, bool value)
{
	p->flags = value ? p->flags | flags : p->flags & ~flags;
}

static void hear(struct console *c, const struct virtio_console_control *m)
{
	struct console_port *p = m->id < c->count ? &c->port[m->id] : NULL;

	if (m->event == VIRTIO_CONSOLE_DEVICE_READY) {
		for (unsigned i = 0; i < c->count; i++)
			flags_set(&c->port[i], PORT_ADD_DUE, m->value);
	} else if (p && m->event == VIRTIO_CONSOLE_PORT_READY) {
		flags_set(p, PORT_READY | PORT_NAME_DUE, m->value);
	} else if (p && m->event == VIRTIO_CONSOLE_PORT_OPEN) {
		flags_set(p, PORT_OPEN, m->value);
		port_move_in(p);
	}
}

static bool hear_one(struct virtio_queue *q)
{
	struct virtio_console_control m;
	struct virtio_chain chain;

	if (!virtio_pop(q, &chain))
		return false;
	if (chain.ins > 0 || !chain_take(&chain, &m, sizeof(m))) {
		virtio_device_break(q->device, "a control message that is none");
		return false;
	}
	hear(console_of(q->device), &m);
	virtqueue_push(q, chain.head, 0);
	return true;
}

static void console_kick(struct virtio_device *d, unsigned queue)
{
	struct console *c = console_of(d);
	struct console_port *p = port_of(c, queue);

	if (queue == QUEUE_CONTROL_OUT)
		virtio_serve(&d->queue[queue], VIRTIO_BUDGET, hear_one);
	if (queue == QUEUE_CONTROL_IN || queue == QUEUE_CONTROL_OUT)
		console_tell(c);
	else if (p && queue % 2)
		port_move_out(p);
	else if (p)
		port_move_in(p);
}

/* Clients stay, and the driver that comes next is told of them. Their watches
 * are put right on the main thread, when they next find nothing to do. */
static void console_reset(struct virtio_device *d)
{
	struct console *c = console_of(d);

	for (unsigned i = 0; i < c->count; i++) {
		c->port[i].flags = 0;
		c->port[i].out_done = 0;
	}
}

static void config_read(struct virtio_device *d, uint32_t offset, void *ret, uint32_t len)
{
	struct virtio_console_config config = { .max_nr_ports = console_of(d)->count };

	memcpy(ret, (uint8_t *)&config + offset, len);
}

struct console_state {
	uint32_t count;
	uint32_t flags[CONSOLE_PORTS_MAX];
};
static_assert(sizeof(struct console_state) == 12, "saved in files");

static unsigned console_save(const struct virtio_device *d, void *ret)
{
	const struct console *c = (const struct console *)d;
	struct console_state s = { .count = c->count };

	for (unsigned i = 0; i < c->count; i++)
		s.flags[i] = c->port[i].flags;
	memcpy(ret, &s, sizeof(s));
	return sizeof(s);
}

/* The client that the driver knows of was another machine's: it is told that it
 * went, and then of its own. */
static void port_load(struct console_port *p, uint32_t flags)
{
	p->flags = flags;
	flags_set(p, PORT_CLOSE_DUE, flags & PORT_TOLD_OPEN);
}

static int console_load(struct virtio_device *d, const void *data, unsigned size)
{
	struct console *c = console_of(d);
	struct console_state s;

	if (size != sizeof(s))
		return -EINVAL;
	memcpy(&s, data, sizeof(s));
	if (s.count != c->count)
		return -EINVAL;
	for (unsigned i = 0; i < CONSOLE_PORTS_MAX; i++)
		if (s.flags[i] & ~(uint32_t)PORT_FLAGS || (i >= c->count && s.flags[i]))
			return -EINVAL;
	for (unsigned i = 0; i < c->count; i++)
		port_load(&c->port[i], s.flags[i]);
	return 0;
}

static void console_end(struct virtio_device *d)
{
	struct console *c = console_of(d);

	for (unsigned i = 0; i < c->count; i++)
		port_end(&c->port[i]);
}

static const struct virtio_ops console_ops = {
	.name = "console",
	.id = VIRTIO_ID_CONSOLE,
	.queues = QUEUES,
	.features = 1ull << VIRTIO_CONSOLE_F_MULTIPORT,
	/* What follows belongs to features not offered. */
	.config_size = offsetof(struct virtio_console_config, emerg_wr),
	.config_read = config_read,
	.kick = console_kick,
	.reset = console_reset,
	.save = console_save,
	.load = console_load,
	.end = console_end,
};

static bool options_fit(const struct console_port_options *ports, unsigned count)
{
	bool fit = count > 0 && count <= CONSOLE_PORTS_MAX;

	for (unsigned i = 0; i < count; i++)
		fit = fit && strlen(ports[i].name) < CONSOLE_NAME_MAX;
	return fit;
}

static int console_init(struct console *c, const struct guest_memory *m, struct loop *l,
			const struct console_port_options *ports, unsigned count)
{
	int err = virtio_device_init(&c->device, &console_ops, m, l);

	for (; c->count < count; c->count++)
		port_init(&c->port[c->count], &c->device, c->count, &ports[c->count]);
	if (err) {
		console_end(&c->device);
		free(c);
		return err;
	}
	for (unsigned i = 0; i < count && !err; i++)
		err = port_listen(&c->port[i]);
	if (err)
		virtio_device_free(&c->device);
	return err;
}

int console_new(const struct guest_memory *m, struct loop *l, const struct console_port_options *ports,
		unsigned count, struct virtio_device **ret)
{
	struct console *c = options_fit(ports, count) ? calloc(1, sizeof(*c)) : NULL;
	int err;

	if (!c) {
		for (unsigned i = 0; i < count; i++)
			close(ports[i].listen_fd);
		return options_fit(ports, count) ? -ENOMEM : -EINVAL;
	}
	err = console_init(c, m, l, ports, count);
	if (!err)
		*ret = &c->device;
	return err;
}
