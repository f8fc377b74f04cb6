#include "device.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vmm/machine/loop.h"

/* Full means that it is set already, and nothing else can go wrong. */
static void eventfd_set(int fd)
{
	eventfd_write(fd, 1);
}

static void kicked(void *arg, uint32_t events)
{
	struct virtio_queue *q = arg;
	struct virtio_device *d = q->device;
	eventfd_t count;

	(void)events;
	if (eventfd_read(d->kick_fd[q->index], &count) == 0 && q->started && virtio_device_live(d))
		d->ops->kick(d, q->index);
}

static void queue_clear(struct virtio_device *d, unsigned i)
{
	d->queue[i] = (struct virtio_queue){ .device = d, .memory = d->memory, .index = i };
}

static int queue_init(struct virtio_device *d, unsigned i)
{
	queue_clear(d, i);
	d->kick_fd[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (d->kick_fd[i] < 0)
		return -errno;
	return loop_watch(d->loop, d->kick_fd[i], EPOLLIN, kicked, &d->queue[i]);
}

static void fds_close(struct virtio_device *d)
{
	for (unsigned i = 0; i < d->queues; i++) {
		if (d->kick_fd[i] < 0)
			continue;
		loop_unwatch(d->loop, d->kick_fd[i]);
		close(d->kick_fd[i]);
	}
	if (d->irq_fd >= 0)
		close(d->irq_fd);
}

int virtio_device_init(struct virtio_device *d, const struct virtio_ops *ops, const struct guest_memory *m,
		       struct loop *l)
{
	int err = 0;

	d->ops = ops;
	d->memory = m;
	d->loop = l;
	d->queues = ops->queues;
	d->features = ops->features | 1ull << VIRTIO_F_VERSION_1 | 1ull << VIRTIO_RING_F_EVENT_IDX;
	for (unsigned i = 0; i < VIRTIO_QUEUES_MAX; i++)
		d->kick_fd[i] = -1;
	d->irq_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (d->irq_fd < 0)
		err = -errno;
	for (unsigned i = 0; i < d->queues && !err; i++)
		err = queue_init(d, i);
	if (err)
		fds_close(d);
	return err;
}

void virtio_device_free(struct virtio_device *d)
{
	if (!d)
		return;
	virtio_device_reset(d);
	fds_close(d);
	if (d->ops->end)
		d->ops->end(d);
	free(d);
}

bool virtio_device_live(const struct virtio_device *d)
{
	return (d->status & (VIRTIO_CONFIG_S_DRIVER_OK | VIRTIO_CONFIG_S_NEEDS_RESET |
			     VIRTIO_CONFIG_S_FAILED)) == VIRTIO_CONFIG_S_DRIVER_OK;
}

bool virtio_device_has(const struct virtio_device *d, unsigned feature)
{
	return d->driver_features >> feature & 1;
}

static void interrupt(struct virtio_device *d, uint32_t reason)
{
	d->interrupt_status |= reason;
	eventfd_set(d->irq_fd);
}

void virtio_device_break(struct virtio_device *d, const char *reason)
{
	if (!d->complained)
		fprintf(stderr, "carrel-vmm: %s: %s\n", d->ops->name, reason);
	d->complained = true;
	d->status |= VIRTIO_CONFIG_S_NEEDS_RESET;
	interrupt(d, VIRTIO_MMIO_INT_CONFIG);
}

void virtio_device_config_changed(struct virtio_device *d)
{
	d->config_generation++;
	if (virtio_device_live(d))
		interrupt(d, VIRTIO_MMIO_INT_CONFIG);
}

bool virtio_peek(struct virtio_queue *q, struct virtio_chain *ret)
{
	int got;

	if (!q->started || !virtio_device_live(q->device))
		return false;
	got = virtqueue_peek(q, ret);
	if (got < 0)
		virtio_device_break(q->device, "the driver made a malformed ring or chain");
	return got == 1;
}

bool virtio_pop(struct virtio_queue *q, struct virtio_chain *ret)
{
	if (!virtio_peek(q, ret))
		return false;
	virtqueue_advance(q);
	return true;
}

void virtio_notify(struct virtio_queue *q)
{
	if (q->started && q->signalled != q->next_used && virtqueue_wants_interrupt(q))
		interrupt(q->device, VIRTIO_MMIO_INT_VRING);
}

void virtio_kick_later(struct virtio_queue *q)
{
	eventfd_set(q->device->kick_fd[q->index]);
}

void virtio_serve(struct virtio_queue *q, unsigned budget, bool (*one)(struct virtio_queue *q))
{
	unsigned served = 0;

	while (served < budget && one(q))
		served++;
	virtio_notify(q);
	if (served == budget)
		virtio_kick_later(q);
}

static void queues_stop(struct virtio_device *d)
{
	for (unsigned i = 0; i < d->queues; i++)
		d->queue[i].started = false;
}

int virtio_device_activate(struct virtio_device *d)
{
	int err = 0;

	for (unsigned i = 0; i < d->queues && !err; i++)
		if (d->queue[i].ready)
			err = virtqueue_start(&d->queue[i], virtio_device_has(d, VIRTIO_RING_F_EVENT_IDX));
	if (err) {
		queues_stop(d);
		return err;
	}
	for (unsigned i = 0; i < d->queues; i++)
		virtio_kick_later(&d->queue[i]);
	return 0;
}

void virtio_device_reset(struct virtio_device *d)
{
	if (d->ops->reset)
		d->ops->reset(d);
	for (unsigned i = 0; i < d->queues; i++)
		queue_clear(d, i);
	d->driver_features = 0;
	d->device_features_sel = d->driver_features_sel = d->queue_sel = 0;
	d->status = 0;
	d->interrupt_status = 0;
}

int virtio_device_drain(struct virtio_device *d)
{
	return d->ops->drain ? d->ops->drain(d) : 0;
}
