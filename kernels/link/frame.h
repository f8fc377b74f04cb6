/* Channel frames on the wire and their incremental reader; channel.h tells what
 * they mean. The reader's memory grows with the bytes that arrived, never with
 * what a length promises.
 */
#ifndef CARREL_LINK_FRAME_H
#define CARREL_LINK_FRAME_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"

enum frame_type {
	FRAME_HELLO = 'H',
	FRAME_ACK = 'A',
	FRAME_GAP = 'G',
};

struct frame_head {
	uint8_t len[4]; /* of what follows */
	uint8_t type;
	uint8_t seq[8];
};
static_assert(sizeof(struct frame_head) == 13, "wire");

struct frame_gap {
	uint8_t first[8], frames[8], bytes[8];
};
static_assert(sizeof(struct frame_gap) == 24, "wire");

enum { FRAME_AFTER_LEN = sizeof(struct frame_head) - 4 };

/* Highest seq either side may speak of: sums of two never overflow. */
#define FRAME_SEQ_MAX (UINT64_MAX / 4)

void frame_head_put(struct frame_head *h, uint8_t type, uint64_t seq, size_t payload);

/* Zero-initialise. */
struct frame_reader {
	struct frame_head head;
	size_t head_len;
	uint8_t *buf;
	size_t cap, len;
};

struct frame {
	uint8_t type;
	uint64_t seq;
	const uint8_t *payload;
	size_t len;
};

/* Takes bytes up to the end of one frame and returns how many; *ret_whole tells
 * whether *ret is a frame, valid until the next call and as long as bytes.
 * Returns -EPROTO for an impossible length, -ENOMEM. */
ptrdiff_t frame_read(struct frame_reader *r, const uint8_t *bytes, size_t len, int *ret_whole,
		     struct frame *ret);
/* Forgets a partial frame and frees. */
void frame_reader_reset(struct frame_reader *r);

#endif
