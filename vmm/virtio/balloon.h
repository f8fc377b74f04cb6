/* virtio-balloon: pages that the guest gives up go back to the host.
 *
 * The guest gives pages when the target asks for it, and takes them back by
 * itself when it runs out (deflate-on-oom); pages free in the guest it reports by
 * itself. A page given up is replaced by an empty anonymous one, whatever lay
 * beneath: of a copy-on-write snapshot, MADV_DONTNEED would bring the file's old
 * bytes back. It counts as dirty. No statistics: the agent has them.
 */
#ifndef CARREL_VMM_VIRTIO_BALLOON_H
#define CARREL_VMM_VIRTIO_BALLOON_H

#include <stdint.h>

struct guest_memory;
struct loop;
struct virtio_device;

int balloon_new(const struct guest_memory *m, struct loop *l, struct virtio_device **ret);

/* How many 4 KiB pages the guest is to give up. The caller holds the bus lock. */
void balloon_set_target(struct virtio_device *d, uint32_t pages);
/* How many it says it gave. */
uint32_t balloon_actual(const struct virtio_device *d);

#endif
