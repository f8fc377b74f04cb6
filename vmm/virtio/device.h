/* A virtio device behind the mmio transport: what every device is made of.
 *
 * A device is made by its constructor (blk.h, console.h, rng.h, balloon.h) and
 * ended by virtio_device_free, before guest memory and the loop are. Whoever
 * calls in here holds the bus lock; the loop holds it around its callbacks.
 * Queues are served on the main thread only: a notification that a vCPU makes
 * by a register goes through kick_fd like one that KVM catches.
 */
#ifndef CARREL_VMM_VIRTIO_DEVICE_H
#define CARREL_VMM_VIRTIO_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "queue.h"

struct guest_memory;
struct loop;
struct virtio_device;

enum {
	/* The console's: two ports and the control queues, each a pair. */
	VIRTIO_QUEUES_MAX = 6,
	/* Chains served in one callback of the loop, then others have their turn. */
	VIRTIO_BUDGET = 64,
	/* Bytes that a device adds of its own to a saved state. */
	VIRTIO_STATE_MAX = 64,
};

struct virtio_ops {
	const char *name;
	uint32_t id;
	unsigned queues;
	uint64_t features; /* beyond what the transport offers for all */
	uint32_t config_size;
	/* [offset, offset+len) is within config_size. */
	void (*config_read)(struct virtio_device *d, uint32_t offset, void *ret, uint32_t len);
	/* NULL: nothing there can be written. */
	void (*config_write)(struct virtio_device *d, uint32_t offset, const void *data, uint32_t len);
	/* The driver may have put chains into that queue; called while live, and
	 * once for each queue after activation and after a load. */
	void (*kick)(struct virtio_device *d, unsigned queue);
	/* Back to the state of its birth; nothing is in flight on return. On a
	 * vCPU's thread, so without the loop. May be NULL. */
	void (*reset)(struct virtio_device *d);
	/* Before a snapshot, vCPUs stopped: 0 with nothing in flight, and what came
	 * while it waited is kicked for later. May be NULL. */
	int (*drain)(struct virtio_device *d);
	/* Its own bytes of a saved state, at most VIRTIO_STATE_MAX; returns how
	 * many. load takes any bytes: a negative errno if they were never saved
	 * by such a device. Both NULL: there are none. */
	unsigned (*save)(const struct virtio_device *d, void *ret);
	int (*load)(struct virtio_device *d, const void *data, unsigned size);
	/* Its own part; reset came before. NULL: there is none. */
	void (*end)(struct virtio_device *d);
};

/* First member of each device's struct, which is allocated as a whole. */
struct virtio_device {
	const struct virtio_ops *ops;
	const struct guest_memory *memory;
	struct loop *loop;
	uint64_t features; /* offered */
	unsigned queues;
	/* For KVM's irqfd, and an ioeventfd a queue: a 4-byte write of the
	 * queue's number to VIRTIO_MMIO_QUEUE_NOTIFY. */
	int irq_fd;
	int kick_fd[VIRTIO_QUEUES_MAX];

	/* Registers, by the driver. */
	uint64_t driver_features;
	uint32_t device_features_sel, driver_features_sel;
	uint32_t queue_sel;
	uint32_t status;
	uint32_t interrupt_status;
	uint32_t config_generation;
	bool complained; /* one line in the log, however often a guest breaks it */
	struct virtio_queue queue[VIRTIO_QUEUES_MAX];
};

/* For constructors, d zeroed, ops->queues queues. On failure nothing is left open. */
int virtio_device_init(struct virtio_device *d, const struct virtio_ops *ops, const struct guest_memory *m,
		       struct loop *l);

/* NULL is fine. Waits for what is in flight. */
void virtio_device_free(struct virtio_device *d);

/* Active, and neither broken nor given up by its driver: queues may be touched. */
bool virtio_device_live(const struct virtio_device *d);
bool virtio_device_has(const struct virtio_device *d, unsigned feature);

/* The driver broke a rule, or the host cannot go on: DEVICE_NEEDS_RESET, and
 * nothing is served until the reset. The reason goes to the log once. */
void virtio_device_break(struct virtio_device *d, const char *reason);

/* The configuration changed: the driver reads it again. */
void virtio_device_config_changed(struct virtio_device *d);

/* The next chain of a queue in *ret, not yet taken. False: there is none (then
 * the driver will kick), or the device is not live, or it broke just now. */
bool virtio_peek(struct virtio_queue *q, struct virtio_chain *ret);
/* The same and takes it. */
bool virtio_pop(struct virtio_queue *q, struct virtio_chain *ret);

/* After a batch of virtqueue_push: an interrupt if the driver wants one. */
void virtio_notify(struct virtio_queue *q);

/* Serves that queue once more when the others had their turn. */
void virtio_kick_later(struct virtio_queue *q);

/* Calls one as long as it says that it served a chain, budget times at most, and
 * then notifies; what is left is for later. */
void virtio_serve(struct virtio_queue *q, unsigned budget, bool (*one)(struct virtio_queue *q));

/* For the transport and the loader of a saved state: validates the queues that
 * are ready, and kicks each once, for what came before. -EINVAL: one is not
 * what a driver may make. A queue that is not ready is never touched. */
int virtio_device_activate(struct virtio_device *d);
void virtio_device_reset(struct virtio_device *d);

/* Before a snapshot, vCPUs stopped. */
int virtio_device_drain(struct virtio_device *d);

#endif
