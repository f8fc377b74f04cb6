#include "rng.h"

#include <errno.h>
#include <linux/virtio_ids.h>
#include <stdlib.h>

#include "device.h"
#include "vmm/machine/entropy.h"

/* The kernel gives up to 256 bytes whole; a signal may cut longer reads short. */
static int random_bytes(uint8_t *to, size_t len)
{
	while (len > 0) {
		ssize_t n = entropy_get(to, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			to += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int chain_randomise(const struct virtio_chain *c, uint32_t len)
{
	int err = 0;

	for (unsigned i = c->outs; i < c->outs + c->ins && len > 0 && !err; i++) {
		uint32_t n = least(len, c->iov[i].iov_len);

		err = random_bytes(c->iov[i].iov_base, n);
		len -= n;
	}
	return err;
}

/* The cap counts over all pieces: they may lie over each other. */
static bool serve_one(struct virtio_queue *q)
{
	struct virtio_chain c;
	uint32_t len;

	if (!virtio_pop(q, &c))
		return false;
	len = least(RNG_REQUEST_MAX, c.in_len);
	if (c.outs > 0 || chain_randomise(&c, len) != 0) {
		virtio_device_break(q->device, c.outs > 0 ? "a request for random bytes has bytes of its own"
							  : "the host has no random bytes");
		return false;
	}
	chain_mark_dirty(&c, q->memory, len);
	virtqueue_push(q, c.head, len);
	return true;
}

static void rng_kick(struct virtio_device *d, unsigned queue)
{
	virtio_serve(&d->queue[queue], RNG_BUDGET, serve_one);
}

static const struct virtio_ops rng_ops = {
	.name = "rng",
	.id = VIRTIO_ID_RNG,
	.queues = 1,
	.kick = rng_kick,
};

int rng_new(const struct guest_memory *m, struct loop *l, struct virtio_device **ret)
{
	struct virtio_device *d = calloc(1, sizeof(*d));
	int err = d ? virtio_device_init(d, &rng_ops, m, l) : -ENOMEM;

	if (err) {
		free(d);
		return err;
	}
	*ret = d;
	return 0;
}
