/* virtio-mmio version 2: the registers of a device, as a vCPU's exits reach them.
 *
 * Each device has a window of VIRTIO_MMIO_WINDOW bytes; offset counts from its
 * start. Any offset, length and order of accesses is safe. What the driver may
 * not do in its state has no effect, and reads of what is not there are zero.
 * The caller holds the bus lock.
 */
#ifndef CARREL_VMM_VIRTIO_MMIO_H
#define CARREL_VMM_VIRTIO_MMIO_H

#include <stdint.h>

struct virtio_device;

enum { VIRTIO_MMIO_WINDOW = 0x1000 };

void virtio_mmio_read(struct virtio_device *d, uint64_t offset, void *ret, unsigned len);
void virtio_mmio_write(struct virtio_device *d, uint64_t offset, const void *data, unsigned len);

#endif
