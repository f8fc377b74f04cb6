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
static int due_next(struct console_port *p, uint16_t *ret_value)
{
	*ret_value = 1;
	if (p->add_due)
		return VIRTIO_CONSOLE_PORT_ADD;
	if (p->name_due)
		return VIRTIO_CONSOLE_PORT_NAME;
	if (p->close_due)
		*ret_value = 0;
	else if (!p->ready || p->told_open || p->client_fd < 0)
		return -1;
	return VIRTIO_CONSOLE_PORT_OPEN;
}

static void due_done(struct console_port *p, int event)
{
	if (event == VIRTIO_CONSOLE_PORT_ADD) {
		p->add_due = false;
	} else if (event == VIRTIO_CONSOLE_PORT_NAME) {
		p->name_due = false;
	} else {
		p->told_open = !p->close_due;
		p->close_due = false;
	}
}

/* False: there is nothing to tell of this port, or no buffer for it. */
static bool tell_one(struct console *c, struct console_port *p)
{
	struct virtio_queue *q = &c->device.queue[QUEUE_CONTROL_IN];
	struct virtio_chain chain;
	struct message m = { 0 };
	uint16_t value;
	uint32_t len = sizeof(m.control);
	int event = due_next(p, &value);

	if (event < 0 || !virtio_pop(q, &chain))
		return false;
	m.control.id = p->id;
	m.control.event = (uint16_t)event;
	m.control.value = value;
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

static void hear(struct console *c, const struct virtio_console_control *m)
{
	struct console_port *p = m->id < c->count ? &c->port[m->id] : NULL;

	if (m->event == VIRTIO_CONSOLE_DEVICE_READY) {
		for (unsigned i = 0; i < c->count && m->value; i++)
			c->port[i].add_due = true;
	} else if (p && m->event == VIRTIO_CONSOLE_PORT_READY) {
		p->ready = p->name_due = m->value;
	} else if (p && m->event == VIRTIO_CONSOLE_PORT_OPEN) {
		p->open = m->value;
		port_move_in(p);
	}
}

static void control_out_kick(struct console *c)
{
	struct virtio_queue *q = &c->device.queue[QUEUE_CONTROL_OUT];
	struct virtio_console_control m;
	struct virtio_chain chain;
	unsigned served = 0;

	for (; served < VIRTIO_BUDGET && virtio_pop(q, &chain); served++) {
		if (chain.ins > 0 || !chain_take(&chain, &m, sizeof(m))) {
			virtio_device_break(&c->device, "a control message that is none");
			return;
		}
		hear(c, &m);
		virtqueue_push(q, chain.head, 0);
	}
	virtio_notify(q);
	if (served == VIRTIO_BUDGET)
		virtio_kick_later(q);
	console_tell(c);
}

static void console_kick(struct virtio_device *d, unsigned queue)
{
	struct console *c = console_of(d);
	unsigned port = queue < QUEUE_CONTROL_IN ? 0 : queue / 2 - 1;

	if (queue == QUEUE_CONTROL_IN)
		console_tell(c);
	else if (queue == QUEUE_CONTROL_OUT)
		control_out_kick(c);
	else if (port < c->count && queue % 2)
		port_move_out(&c->port[port]);
	else if (port < c->count)
		port_move_in(&c->port[port]);
}

/* Clients stay, and the driver that comes next is told of them. Their watches
 * are put right on the main thread, when they next find nothing to do. */
static void console_reset(struct virtio_device *d)
{
	struct console *c = console_of(d);

	for (unsigned i = 0; i < c->count; i++) {
		struct console_port *p = &c->port[i];

		p->ready = p->open = p->told_open = false;
		p->add_due = p->name_due = p->close_due = false;
		p->out_done = 0;
	}
}

static void config_read(struct virtio_device *d, uint32_t offset, void *ret, uint32_t len)
{
	struct virtio_console_config config = { .max_nr_ports = console_of(d)->count };

	memcpy(ret, (uint8_t *)&config + offset, len);
}

enum { SAVED_READY = 1, SAVED_OPEN = 2, SAVED_TOLD = 4, SAVED_ADD = 8, SAVED_NAME = 16, SAVED_ALL = 31 };

struct console_state {
	uint32_t count;
	uint32_t flags[CONSOLE_PORTS_MAX];
};
static_assert(sizeof(struct console_state) == 12, "saved in files");

static uint32_t port_flags(const struct console_port *p)
{
	return (p->ready ? SAVED_READY : 0u) | (p->open ? SAVED_OPEN : 0u) | (p->told_open ? SAVED_TOLD : 0u) |
	       (p->add_due ? SAVED_ADD : 0u) | (p->name_due ? SAVED_NAME : 0u);
}

static unsigned console_save(const struct virtio_device *d, void *ret)
{
	const struct console *c = (const struct console *)d;
	struct console_state s = { .count = c->count };

	for (unsigned i = 0; i < c->count; i++)
		s.flags[i] = port_flags(&c->port[i]);
	memcpy(ret, &s, sizeof(s));
	return sizeof(s);
}

/* The client that the driver knows of was another machine's: it is told that it
 * went, and then of its own. */
static void port_load(struct console_port *p, uint32_t flags)
{
	p->ready = flags & SAVED_READY;
	p->open = flags & SAVED_OPEN;
	p->told_open = flags & SAVED_TOLD;
	p->add_due = flags & SAVED_ADD;
	p->name_due = flags & SAVED_NAME;
	p->close_due = p->told_open;
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
		if (s.flags[i] & ~(uint32_t)SAVED_ALL || (i >= c->count && s.flags[i]))
			return -EINVAL;
	for (unsigned i = 0; i < c->count; i++)
		port_load(&c->port[i], s.flags[i]);
	return 0;
}

static void console_free(struct virtio_device *d)
{
	struct console *c = console_of(d);

	for (unsigned i = 0; i < c->count; i++)
		port_end(&c->port[i]);
	free(c);
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
	.free = console_free,
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
		console_free(&c->device);
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
