#include "frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "le.h"

enum {
	FRAME_BUF_FIRST = 4096,
	/* A larger buffer is given back after its frame. */
	FRAME_BUF_KEEP = 64 * 1024,
};

void frame_head_put(struct frame_head *h, uint8_t type, uint64_t seq, size_t payload)
{
	le32_put(h->len, (uint32_t)(FRAME_AFTER_LEN + payload));
	h->type = type;
	le64_put(h->seq, seq);
}

static int frame_reserve(struct frame_reader *r, size_t want, size_t total)
{
	size_t cap = r->cap ? r->cap : FRAME_BUF_FIRST;
	uint8_t *buf;

	if (want <= r->cap)
		return 0;
	while (cap < want)
		cap *= 2;
	if (cap > total && total > r->cap)
		cap = total;
	buf = realloc(r->buf, cap);
	if (!buf)
		return -ENOMEM;
	r->buf = buf;
	r->cap = cap;
	return 0;
}

static void frame_finish(struct frame_reader *r, const uint8_t *payload, size_t len, struct frame *ret)
{
	*ret = (struct frame){
		.type = r->head.type,
		.seq = le64_get(r->head.seq),
		.payload = payload,
		.len = len,
	};
	r->head_len = 0;
	r->len = 0;
}

ptrdiff_t frame_read(struct frame_reader *r, const uint8_t *bytes, size_t len, int *ret_whole,
		     struct frame *ret)
{
	size_t used = 0, total, left;

	*ret_whole = 0;
	if (r->head_len == 0 && r->cap > FRAME_BUF_KEEP)
		frame_reader_reset(r);
	if (r->head_len < sizeof(r->head)) {
		used = sizeof(r->head) - r->head_len < len ? sizeof(r->head) - r->head_len : len;
		memcpy((uint8_t *)&r->head + r->head_len, bytes, used);
		r->head_len += used;
		if (r->head_len < sizeof(r->head))
			return (ptrdiff_t)used;
	}
	total = le32_get(r->head.len);
	if (total < FRAME_AFTER_LEN || total > FRAME_AFTER_LEN + CHANNEL_FRAME_MAX)
		return -EPROTO;
	total -= FRAME_AFTER_LEN;
	left = total - r->len;
	*ret_whole = len - used >= left;
	if (*ret_whole && r->len == 0) {
		frame_finish(r, bytes + used, total, ret);
		return (ptrdiff_t)(used + total);
	}
	if (left > len - used)
		left = len - used;
	if (left == 0)
		return (ptrdiff_t)used;
	if (frame_reserve(r, r->len + left, total) < 0)
		return -ENOMEM;
	memcpy(r->buf + r->len, bytes + used, left);
	r->len += left;
	if (*ret_whole)
		frame_finish(r, r->buf, total, ret);
	return (ptrdiff_t)(used + left);
}

void frame_reader_reset(struct frame_reader *r)
{
	free(r->buf);
	*r = (struct frame_reader){ 0 };
}
