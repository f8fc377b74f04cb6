/* A hostile driver made of a fuzzer's input: accesses to registers, bytes in RAM,
 * chains as wrong as can be, and now and then an honest start, so that the
 * device is reached behind it. Guest RAM lies between inaccessible pages.
 */
#ifndef CARREL_TESTS_FUZZ_VIRTIO_H
#define CARREL_TESTS_FUZZ_VIRTIO_H

#include <stdint.h>

#include "../unit/virtio_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	OP_WRITE,  /* a register: number, 4 bytes */
	OP_READ,   /* offset of 16 bits, length */
	OP_ACCESS, /* the same, written, of 8 bytes that follow */
	OP_RAM,    /* address of 24 bits, length, bytes */
	OP_RING,   /* queue, offset into its rings' page of 16 bits, 2 bytes */
	OP_START,  /* features, honest rings */
	OP_CHAIN,  /* queue, pieces, of each address and length of 16 bits, flags */
	OP_KICK,   /* queue */
	OP_TURN,   /* the loop, until it rests */
	OP_SAVE,   /* and load into a new device */
	OP_OWN,    /* the device's own: two bytes */
	OPS,
	/* Chains' pieces lie in the first 64 KiB, some past the end. */
	PIECES_MAX = 8,
	FUZZ_QUEUE_SIZE = 8,
};

struct input {
	const uint8_t *at, *end;
};

static inline uint64_t take(struct input *in, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes && in->at < in->end; i++)
		value |= (uint64_t)*in->at++ << 8 * i;
	return value;
}

static inline void op_ram(struct input *in)
{
	uint64_t gpa = take(in, 3);
	unsigned n = (unsigned)take(in, 1);

	for (unsigned i = 0; i < n && in->at < in->end; i++)
		*(uint8_t *)at(gpa + i) = *in->at++;
}

static inline void op_chain(struct driver *v, struct input *in)
{
	unsigned queue = (unsigned)take(in, 1) % v->d->queues, n = (unsigned)take(in, 1) % PIECES_MAX + 1;
	struct piece pieces[PIECES_MAX];

	if (v->ring[queue].size == 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		uint64_t gpa = take(in, 2);
		uint32_t len = (uint32_t)take(in, 2);
		unsigned flags = (unsigned)take(in, 1);

		pieces[i] = (struct piece){ flags & 0x80 ? RAM_BYTES - gpa : gpa, len, flags & 1 };
	}
	chain_add(v, queue, pieces, n);
}

static inline void op_start(struct driver *v, struct input *in)
{
	uint64_t features = v->d->features & (take(in, 4) | 1ull << VIRTIO_F_VERSION_1);

	driver_start_sized(v, features, FUZZ_QUEUE_SIZE);
}

static inline void op_ring(struct driver *v, struct input *in)
{
	unsigned queue = (unsigned)take(in, 1) % v->d->queues;
	uint64_t offset = take(in, 2) % (2 * RINGS_BYTES - 1);
	uint16_t value = (uint16_t)take(in, 2);

	memcpy((uint8_t *)at(RAM_BYTES - (queue + 1ull) * 2 * RINGS_BYTES) + offset, &value, sizeof(value));
}

static inline void op_save(struct driver *v, struct virtio_device *(*make)(void))
{
	struct virtio_device_state s;
	struct virtio_device *d;

	CHECK_INT(virtio_device_drain(v->d), 0);
	virtio_device_save(v->d, &s);
	d = make();
	CHECK_INT(virtio_device_load(d, &s), 0);
	virtio_device_free(v->d);
	v->d = d;
}

static inline void op_do(struct driver *v, struct input *in, struct virtio_device *(*make)(void),
			 void (*own)(struct driver *v, uint8_t a, uint8_t b))
{
	uint8_t bytes[8];
	uint64_t offset;

	switch (take(in, 1) % OPS) {
	case OP_WRITE:
		offset = take(in, 1) * 4;
		reg_set(v, offset, (uint32_t)take(in, 4));
		break;
	case OP_READ:
		offset = take(in, 2);
		virtio_mmio_read(v->d, offset, bytes, (unsigned)take(in, 1) % 8 + 1);
		break;
	case OP_ACCESS:
		offset = take(in, 2);
		for (unsigned i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)take(in, 1);
		virtio_mmio_write(v->d, offset, bytes, (unsigned)take(in, 1) % 8 + 1);
		break;
	case OP_RAM:
		op_ram(in);
		break;
	case OP_RING:
		op_ring(v, in);
		break;
	case OP_START:
		op_start(v, in);
		break;
	case OP_CHAIN:
		op_chain(v, in);
		break;
	case OP_KICK:
		kick(v, (unsigned)take(in, 1));
		break;
	case OP_TURN:
		loop_settle();
		break;
	case OP_SAVE:
		op_save(v, make);
		break;
	default:
		if (own)
			own(v, (uint8_t)take(in, 1), (uint8_t)take(in, 1));
		break;
	}
}

/* One life of a device. own: what the outside does to it; NULL: nothing. */
static inline void virtio_fuzz(const uint8_t *data, size_t size, struct virtio_device *(*make)(void),
			       void (*own)(struct driver *v, uint8_t a, uint8_t b))
{
	struct input in = { data, data + size };
	struct driver v = { 0 };

	stage_start(RAM_BYTES);
	v.d = make();
	while (in.at < in.end)
		op_do(&v, &in, make, own);
	loop_settle();
	virtio_device_free(v.d);
	stage_end();
}

#endif
