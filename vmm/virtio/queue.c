#include "queue.h"

#include <errno.h>
#include <stddef.h>

#include "vmm/machine/memory.h"

/* A ring's fields as the driver sees them change. Relaxed: the index that says
 * how far a ring is filled carries the order. */
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)

static uint64_t desc_bytes(const struct virtio_queue *q)
{
	return (uint64_t)q->size * sizeof(struct vring_desc);
}

/* Behind each ring lies a 16-bit event index, used or not. */
static uint64_t avail_bytes(const struct virtio_queue *q)
{
	return sizeof(struct vring_avail) + (q->size + 1) * sizeof(__virtio16);
}

static uint64_t used_bytes(const struct virtio_queue *q)
{
	return sizeof(struct vring_used) + q->size * sizeof(struct vring_used_elem) + sizeof(__virtio16);
}

static void *ring_at(const struct virtio_queue *q, uint64_t gpa, uint64_t bytes, unsigned align)
{
	return gpa % align ? NULL : memory_at(q->memory, gpa, bytes);
}

int virtqueue_start(struct virtio_queue *q, bool event_index)
{
	if (q->size == 0 || q->size > VIRTIO_QUEUE_MAX || (q->size & (q->size - 1)))
		return -EINVAL;
	q->desc = ring_at(q, q->desc_gpa, desc_bytes(q), VRING_DESC_ALIGN_SIZE);
	q->avail = ring_at(q, q->avail_gpa, avail_bytes(q), VRING_AVAIL_ALIGN_SIZE);
	q->used = ring_at(q, q->used_gpa, used_bytes(q), VRING_USED_ALIGN_SIZE);
	if (!q->desc || !q->avail || !q->used)
		return -EINVAL;
	q->event_index = event_index;
	q->started = true;
	return 0;
}

/* One descriptor into the chain; negative if it is not one a driver may make. */
static int chain_add(struct virtio_queue *q, uint16_t at, struct virtio_chain *c, uint16_t *ret_flags,
		     uint16_t *ret_next)
{
	struct vring_desc *d = &q->desc[at];
	uint64_t gpa = READ_ONCE(d->addr);
	uint32_t len = READ_ONCE(d->len);
	uint16_t flags = READ_ONCE(d->flags);
	void *host = memory_at(q->memory, gpa, len);
	unsigned i = c->outs + c->ins;
	bool in = flags & VRING_DESC_F_WRITE;
	uint32_t *total = in ? &c->in_len : &c->out_len;

	if (!host || flags & VRING_DESC_F_INDIRECT || (!in && c->ins > 0) ||
	    __builtin_add_overflow(*total, len, total))
		return -EBADMSG;
	c->iov[i] = (struct iovec){ host, len };
	c->gpa[i] = gpa;
	*(in ? &c->ins : &c->outs) += 1;
	*ret_flags = flags;
	*ret_next = READ_ONCE(d->next);
	return 0;
}

/* A loop is a chain with more pieces than the queue has entries. */
static int chain_read(struct virtio_queue *q, uint16_t head, struct virtio_chain *c)
{
	uint16_t at = head, flags;

	c->head = head;
	c->outs = c->ins = 0;
	c->out_len = c->in_len = 0;
	for (uint32_t pieces = 0; pieces < q->size; pieces++) {
		if (at >= q->size || chain_add(q, at, c, &flags, &at) != 0)
			return -EBADMSG;
		if (!(flags & VRING_DESC_F_NEXT))
			return 1;
	}
	return -EBADMSG;
}

/* How far the driver filled the available ring; what it put there is read after. */
static uint16_t avail_index(const struct virtio_queue *q)
{
	return __atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE);
}

/* Asks to be notified of the next chain, which may be there by now: the fence
 * pairs with the driver's between filling the ring and reading our wish. */
static uint16_t avail_index_armed(struct virtio_queue *q)
{
	__virtio16 *event = (__virtio16 *)&q->used->ring[q->size];

	if (q->event_index) {
		WRITE_ONCE(*event, q->next_avail);
		memory_mark_dirty(q->memory, q->used_gpa, used_bytes(q));
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	}
	return avail_index(q);
}

int virtqueue_peek(struct virtio_queue *q, struct virtio_chain *ret)
{
	uint16_t filled = avail_index(q);

	if (filled == q->next_avail)
		filled = avail_index_armed(q);
	if (filled == q->next_avail)
		return 0;
	if ((uint16_t)(filled - q->next_avail) > q->size)
		return -EBADMSG;
	return chain_read(q, READ_ONCE(q->avail->ring[q->next_avail & (q->size - 1)]), ret);
}

void virtqueue_advance(struct virtio_queue *q)
{
	q->next_avail++;
}

void virtqueue_push(struct virtio_queue *q, uint16_t head, uint32_t len)
{
	struct vring_used_elem *e = &q->used->ring[q->next_used & (q->size - 1)];

	WRITE_ONCE(e->id, head);
	WRITE_ONCE(e->len, len);
	/* The driver must see the entry, and the chain's bytes, before the index. */
	__atomic_store_n(&q->used->idx, ++q->next_used, __ATOMIC_RELEASE);
	memory_mark_dirty(q->memory, q->used_gpa, used_bytes(q));
}

bool virtqueue_wants_interrupt(struct virtio_queue *q)
{
	uint16_t was = q->signalled;

	/* Pairs with the driver's between writing its wish and reading the index. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	q->signalled = q->next_used;
	if (q->event_index)
		return vring_need_event(READ_ONCE(q->avail->ring[q->size]), q->next_used, was);
	return !(READ_ONCE(q->avail->flags) & VRING_AVAIL_F_NO_INTERRUPT);
}
