#include "mmio.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <string.h>

#include "device.h"

enum {
	MAGIC = 0x74726976, /* "virt" */
	VERSION = 2,
	VENDOR = 0x4c525243, /* "CRRL" */

	/* What the driver says of itself, one after the other. */
	STATUS_FOUND = VIRTIO_CONFIG_S_ACKNOWLEDGE,
	STATUS_DRIVER = STATUS_FOUND | VIRTIO_CONFIG_S_DRIVER,
	STATUS_FEATURES = STATUS_DRIVER | VIRTIO_CONFIG_S_FEATURES_OK,
	STATUS_ACTIVE = STATUS_FEATURES | VIRTIO_CONFIG_S_DRIVER_OK,
};

static struct virtio_queue *selected(struct virtio_device *d)
{
	return d->queue_sel < d->queues ? &d->queue[d->queue_sel] : NULL;
}

static uint32_t half(uint64_t value, uint32_t select)
{
	return select > 1 ? 0 : (uint32_t)(value >> 32 * select);
}

static uint32_t register_read(struct virtio_device *d, uint64_t offset)
{
	struct virtio_queue *q = selected(d);

	switch (offset) {
	case VIRTIO_MMIO_MAGIC_VALUE:
		return MAGIC;
	case VIRTIO_MMIO_VERSION:
		return VERSION;
	case VIRTIO_MMIO_DEVICE_ID:
		return d->ops->id;
	case VIRTIO_MMIO_VENDOR_ID:
		return VENDOR;
	case VIRTIO_MMIO_DEVICE_FEATURES:
		return half(d->features, d->device_features_sel);
	case VIRTIO_MMIO_QUEUE_NUM_MAX:
		return q ? VIRTIO_QUEUE_MAX : 0;
	case VIRTIO_MMIO_QUEUE_READY:
		return q && q->ready;
	case VIRTIO_MMIO_INTERRUPT_STATUS:
		return d->interrupt_status;
	case VIRTIO_MMIO_STATUS:
		return d->status;
	case VIRTIO_MMIO_CONFIG_GENERATION:
		return d->config_generation;
	default:
		return 0;
	}
}

static void config_read(struct virtio_device *d, uint64_t offset, void *ret, unsigned len)
{
	if (offset < d->ops->config_size && len <= d->ops->config_size - offset)
		d->ops->config_read(d, (uint32_t)offset, ret, len);
}

void virtio_mmio_read(struct virtio_device *d, uint64_t offset, void *ret, unsigned len)
{
	uint32_t value;

	memset(ret, 0, len);
	if (offset >= VIRTIO_MMIO_CONFIG) {
		config_read(d, offset - VIRTIO_MMIO_CONFIG, ret, len);
	} else if (len == sizeof(value)) {
		value = register_read(d, offset);
		memcpy(ret, &value, sizeof(value));
	}
}

/* A subset of what is offered, with the one feature this transport needs. */
static bool features_fit(const struct virtio_device *d)
{
	return !(d->driver_features & ~d->features) && virtio_device_has(d, VIRTIO_F_VERSION_1);
}

/* The driver sets one bit after the other and clears none. It may give up at
 * any time; only a reset leads back. FEATURES_OK stays clear, as an answer, when
 * the features do not fit. */
static void status_write(struct virtio_device *d, uint32_t value)
{
	uint32_t was = d->status & ~(uint32_t)VIRTIO_CONFIG_S_NEEDS_RESET;

	value &= ~(uint32_t)VIRTIO_CONFIG_S_NEEDS_RESET;
	if (value == 0) {
		virtio_device_reset(d);
	} else if (value == (was | VIRTIO_CONFIG_S_FAILED)) {
		d->status |= VIRTIO_CONFIG_S_FAILED;
	} else if ((was == 0 && value == STATUS_FOUND) || (was == STATUS_FOUND && value == STATUS_DRIVER) ||
		   (was == STATUS_DRIVER && value == STATUS_FEATURES && features_fit(d))) {
		d->status |= value;
	} else if (was == STATUS_FEATURES && value == STATUS_ACTIVE) {
		d->status |= value;
		if (virtio_device_activate(d) != 0)
			virtio_device_break(d, "the driver made a queue that cannot be");
	}
}

/* Only one driver can be at it, and only before it says it is done. */
static bool may_choose_features(const struct virtio_device *d)
{
	return d->status == STATUS_DRIVER;
}

static bool may_set_queues(const struct virtio_device *d)
{
	return d->status == STATUS_FEATURES;
}

static void half_write(uint64_t *to, bool high, uint32_t value)
{
	*to = high ? (*to & UINT32_MAX) | (uint64_t)value << 32 : (*to & ~(uint64_t)UINT32_MAX) | value;
}

static void queue_write(struct virtio_queue *q, uint64_t offset, uint32_t value)
{
	bool high = offset & 4; /* of a pair of registers */

	switch (offset) {
	case VIRTIO_MMIO_QUEUE_NUM:
		q->size = value;
		break;
	case VIRTIO_MMIO_QUEUE_READY:
		q->ready = value & 1;
		break;
	case VIRTIO_MMIO_QUEUE_DESC_LOW:
	case VIRTIO_MMIO_QUEUE_DESC_HIGH:
		half_write(&q->desc_gpa, high, value);
		break;
	case VIRTIO_MMIO_QUEUE_AVAIL_LOW:
	case VIRTIO_MMIO_QUEUE_AVAIL_HIGH:
		half_write(&q->avail_gpa, high, value);
		break;
	case VIRTIO_MMIO_QUEUE_USED_LOW:
	case VIRTIO_MMIO_QUEUE_USED_HIGH:
		half_write(&q->used_gpa, high, value);
		break;
	default:
		break;
	}
}

static void register_write(struct virtio_device *d, uint64_t offset, uint32_t value)
{
	struct virtio_queue *q = selected(d);

	switch (offset) {
	case VIRTIO_MMIO_DEVICE_FEATURES_SEL:
		d->device_features_sel = value;
		break;
	case VIRTIO_MMIO_DRIVER_FEATURES_SEL:
		d->driver_features_sel = value;
		break;
	case VIRTIO_MMIO_DRIVER_FEATURES:
		if (may_choose_features(d) && d->driver_features_sel <= 1)
			half_write(&d->driver_features, d->driver_features_sel, value);
		break;
	case VIRTIO_MMIO_QUEUE_SEL:
		d->queue_sel = value;
		break;
	case VIRTIO_MMIO_QUEUE_NOTIFY:
		if (value < d->queues)
			virtio_kick_later(&d->queue[value]);
		break;
	case VIRTIO_MMIO_INTERRUPT_ACK:
		if (d->status & VIRTIO_CONFIG_S_DRIVER_OK)
			d->interrupt_status &= ~value;
		break;
	case VIRTIO_MMIO_STATUS:
		status_write(d, value);
		break;
	default:
		if (q && may_set_queues(d))
			queue_write(q, offset, value);
		break;
	}
}

static void config_write(struct virtio_device *d, uint64_t offset, const void *data, unsigned len)
{
	if (d->ops->config_write && d->status & VIRTIO_CONFIG_S_DRIVER && offset < d->ops->config_size &&
	    len <= d->ops->config_size - offset)
		d->ops->config_write(d, (uint32_t)offset, data, len);
}

void virtio_mmio_write(struct virtio_device *d, uint64_t offset, const void *data, unsigned len)
{
	uint32_t value;

	if (offset >= VIRTIO_MMIO_CONFIG) {
		config_write(d, offset - VIRTIO_MMIO_CONFIG, data, len);
	} else if (len == sizeof(value)) {
		memcpy(&value, data, sizeof(value));
		register_write(d, offset, value);
	}
}
