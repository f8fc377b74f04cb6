#include <errno.h>
#include <fcntl.h>

#include "blk.h"
#include "blk_inner.h"

/* Header and status byte off the chain, wherever its pieces are cut. */
bool blk_parse(struct blk_request *r)
{
	struct virtio_chain *c = &r->chain;
	unsigned last = c->outs + c->ins - 1;

	if (c->in_len == 0 || !chain_take(c, &r->header, sizeof(r->header)))
		return false;
	r->pushed_len = c->in_len;
	c->iov[last].iov_len--;
	c->in_len--;
	r->status = (uint8_t *)c->iov[last].iov_base + c->iov[last].iov_len;
	r->status_gpa = c->gpa[last] + c->iov[last].iov_len;
	return true;
}

static bool range_fits(const struct blk *b, uint64_t sector, uint64_t sectors)
{
	return sector <= b->capacity && sectors <= b->capacity - sector;
}

void blk_transfer(struct blk *b, struct blk_request *r)
{
	struct virtio_chain *c = &r->chain;

	if (r->header.type == VIRTIO_BLK_T_IN)
		blk_ring_read(&b->ring, chain_in(c), c->ins, r->offset, r);
	else
		blk_ring_write(&b->ring, c->iov, c->outs, r->offset, r);
}

static int serve_transfer(struct blk *b, struct blk_request *r)
{
	bool in = r->header.type == VIRTIO_BLK_T_IN;
	uint32_t len = in ? r->chain.in_len : r->chain.out_len;
	uint32_t wrong = in ? r->chain.out_len : r->chain.in_len;

	if (len == 0 || len % BLK_SECTOR || len > BLK_SEGMENTS_MAX * BLK_SEGMENT_MAX || wrong ||
	    !range_fits(b, r->header.sector, len / BLK_SECTOR) || (!in && b->flags & BLK_READ_ONLY))
		return VIRTIO_BLK_S_IOERR;
	r->offset = r->header.sector * BLK_SECTOR;
	blk_transfer(b, r);
	return BLK_LATER;
}

static int serve_flush(struct blk *b, struct blk_request *r)
{
	if (!(b->flags & BLK_DURABLE))
		return VIRTIO_BLK_S_UNSUPP;
	blk_ring_sync(&b->ring, r);
	return BLK_LATER;
}

static int serve_id(struct blk *b, struct blk_request *r)
{
	chain_fill(&r->chain, b->device.memory, b->id, sizeof(b->id));
	return VIRTIO_BLK_S_OK;
}

static int discard(struct blk *b, const struct virtio_blk_discard_write_zeroes *s)
{
	if (s->flags)
		return VIRTIO_BLK_S_UNSUPP;
	if (s->num_sectors > BLK_DISCARD_SECTORS || !range_fits(b, s->sector, s->num_sectors))
		return VIRTIO_BLK_S_IOERR;
	if (s->num_sectors == 0 ||
	    fallocate(b->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)s->sector * BLK_SECTOR,
		      (off_t)s->num_sectors * BLK_SECTOR) == 0)
		return VIRTIO_BLK_S_OK;
	return errno == EOPNOTSUPP ? VIRTIO_BLK_S_UNSUPP : VIRTIO_BLK_S_IOERR;
}

/* Here and now, not by the ring, which cannot: the cost is bounded, and the guest
 * has no write to these sectors on its way. */
static int serve_discard(struct blk *b, struct blk_request *r)
{
	struct virtio_blk_discard_write_zeroes segments[BLK_DISCARD_SEGMENTS];
	uint32_t len = r->chain.out_len;
	int status = VIRTIO_BLK_S_OK;

	if (b->flags & BLK_READ_ONLY || len == 0 || len > sizeof(segments) || len % sizeof(*segments) ||
	    !chain_take(&r->chain, segments, len))
		return VIRTIO_BLK_S_IOERR;
	for (unsigned i = 0; i < len / sizeof(*segments) && status == VIRTIO_BLK_S_OK; i++)
		status = discard(b, &segments[i]);
	return status;
}

int blk_serve(struct blk *b, struct blk_request *r)
{
	switch (r->header.type) {
	case VIRTIO_BLK_T_IN:
	case VIRTIO_BLK_T_OUT:
		return serve_transfer(b, r);
	case VIRTIO_BLK_T_FLUSH:
		return serve_flush(b, r);
	case VIRTIO_BLK_T_GET_ID:
		return serve_id(b, r);
	case VIRTIO_BLK_T_DISCARD:
		return serve_discard(b, r);
	default:
		return VIRTIO_BLK_S_UNSUPP;
	}
}
