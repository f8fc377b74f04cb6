/* virtio-rng: the host's getrandom for the guest, at most RNG_REQUEST_MAX a request. */
#ifndef CARREL_VMM_VIRTIO_RNG_H
#define CARREL_VMM_VIRTIO_RNG_H

struct guest_memory;
struct loop;
struct virtio_device;

enum {
	RNG_REQUEST_MAX = 64 * 1024,
	/* Requests in one turn of the loop: at most some milliseconds of the host. */
	RNG_BUDGET = 16,
};

int rng_new(const struct guest_memory *m, struct loop *l, struct virtio_device **ret);

#endif
