/* A device's registers, queues and own bytes, to and from a snapshot.
 *
 * The bytes come from a file and may be anything: what no device of this kind
 * could have saved is refused. The layout is struct virtio_device_state; the
 * snapshot's header has the version.
 */
#ifndef CARREL_VMM_VIRTIO_STATE_H
#define CARREL_VMM_VIRTIO_STATE_H

#include <assert.h>

#include "device.h"

struct virtio_queue_state {
	uint64_t desc, avail, used;
	uint32_t size, ready;
	uint16_t next; /* of both rings: nothing is in flight */
	uint16_t signalled;
	uint32_t reserved;
};
static_assert(sizeof(struct virtio_queue_state) == 40, "saved in files");

struct virtio_device_state {
	uint32_t id, queues;
	uint64_t driver_features;
	uint32_t device_features_sel, driver_features_sel, queue_sel;
	uint32_t status, interrupt_status, config_generation;
	struct virtio_queue_state queue[VIRTIO_QUEUES_MAX];
	uint32_t own_size, reserved;
	uint8_t own[VIRTIO_STATE_MAX];
};
static_assert(sizeof(struct virtio_device_state) == 40 + 6 * 40 + 8 + 64, "saved in files");

/* After virtio_device_drain, with no loop and no vCPU running since. */
void virtio_device_save(const struct virtio_device *d, struct virtio_device_state *ret);

/* Into a device that no driver has touched, guest memory in place: it goes on
 * where it was. Pending interrupts are raised again, so the interrupt
 * controllers are restored before. -EINVAL: not a state of such a device; it is
 * then fit for nothing but virtio_device_free. */
int virtio_device_load(struct virtio_device *d, const struct virtio_device_state *s);

#endif
