#include "state.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <sys/eventfd.h>

static void queue_save(const struct virtio_queue *q, struct virtio_queue_state *ret)
{
	*ret = (struct virtio_queue_state){
		.desc = q->desc_gpa,
		.avail = q->avail_gpa,
		.used = q->used_gpa,
		.size = q->size,
		.ready = q->ready,
		.next = q->next_avail,
		.signalled = q->signalled,
	};
}

void virtio_device_save(const struct virtio_device *d, struct virtio_device_state *ret)
{
	*ret = (struct virtio_device_state){
		.id = d->ops->id,
		.queues = d->queues,
		.driver_features = d->driver_features,
		.device_features_sel = d->device_features_sel,
		.driver_features_sel = d->driver_features_sel,
		.queue_sel = d->queue_sel,
		.status = d->status,
		.interrupt_status = d->interrupt_status,
		.config_generation = d->config_generation,
	};
	for (unsigned i = 0; i < d->queues; i++)
		queue_save(&d->queue[i], &ret->queue[i]);
	if (d->ops->save)
		ret->own_size = d->ops->save(d, ret->own);
}

/* Any of the states that the transport lets a driver reach. */
static bool status_is_possible(uint32_t status)
{
	static const uint32_t steps[] = { VIRTIO_CONFIG_S_ACKNOWLEDGE, VIRTIO_CONFIG_S_DRIVER,
					  VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_DRIVER_OK };
	uint32_t said = status & ~(uint32_t)(VIRTIO_CONFIG_S_FAILED | VIRTIO_CONFIG_S_NEEDS_RESET);
	uint32_t reached = 0;

	for (unsigned i = 0; i < sizeof(steps) / sizeof(*steps) && said != reached; i++)
		reached |= steps[i];
	return said == reached;
}

/* Before FEATURES_OK a driver may have written what it will not get. */
static bool registers_are_possible(const struct virtio_device *d, const struct virtio_device_state *s)
{
	bool agreed = s->status & VIRTIO_CONFIG_S_FEATURES_OK;

	return s->id == d->ops->id && s->queues == d->queues && status_is_possible(s->status) &&
	       !(s->interrupt_status & ~(uint32_t)(VIRTIO_MMIO_INT_VRING | VIRTIO_MMIO_INT_CONFIG)) &&
	       (!agreed ||
		(!(s->driver_features & ~d->features) && s->driver_features >> VIRTIO_F_VERSION_1 & 1)) &&
	       s->own_size <= VIRTIO_STATE_MAX;
}

static void registers_load(struct virtio_device *d, const struct virtio_device_state *s)
{
	d->driver_features = s->driver_features;
	d->device_features_sel = s->device_features_sel;
	d->driver_features_sel = s->driver_features_sel;
	d->queue_sel = s->queue_sel;
	d->status = s->status;
	d->interrupt_status = s->interrupt_status;
	d->config_generation = s->config_generation;
}

static void queue_load(struct virtio_queue *q, const struct virtio_queue_state *s)
{
	q->desc_gpa = s->desc;
	q->avail_gpa = s->avail;
	q->used_gpa = s->used;
	q->size = s->size;
	q->ready = s->ready;
	q->next_avail = q->next_used = s->next;
	q->signalled = s->signalled;
}

static int own_load(struct virtio_device *d, const struct virtio_device_state *s)
{
	if (d->ops->load)
		return d->ops->load(d, s->own, s->own_size);
	return s->own_size ? -EINVAL : 0;
}

/* A broken device had its queues stopped at activation or was live before: both
 * stay as dead after a load. */
int virtio_device_load(struct virtio_device *d, const struct virtio_device_state *s)
{
	int err;

	if (!registers_are_possible(d, s))
		return -EINVAL;
	registers_load(d, s);
	for (unsigned i = 0; i < d->queues; i++) {
		if (s->queue[i].ready > 1)
			return -EINVAL;
		queue_load(&d->queue[i], &s->queue[i]);
	}
	err = own_load(d, s);
	if (!err && virtio_device_live(d))
		err = virtio_device_activate(d);
	if (!err && d->interrupt_status)
		eventfd_write(d->irq_fd, 1);
	return err;
}
