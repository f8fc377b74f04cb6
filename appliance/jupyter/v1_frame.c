#include "v1_frame.h"

#include <errno.h>
#include <string.h>

static uint64_t get_u64(const unsigned char *at)
{
	uint64_t n = 0;

	for (int i = 7; i >= 0; i--)
		n = n << 8 | at[i];
	return n;
}

static void put_u64(unsigned char *at, uint64_t n)
{
	for (int i = 0; i < 8; i++)
		at[i] = (unsigned char)(n >> (8 * i));
}

/* Piece i of the frame: the channel, then the parts. */
static int piece(const unsigned char *bytes, size_t len, uint64_t i, struct v1_part *ret)
{
	uint64_t from = get_u64(bytes + 8 * (1 + i)), to = get_u64(bytes + 8 * (2 + i));

	if (from > to || to > len)
		return -EBADMSG;
	*ret = (struct v1_part){ .bytes = bytes + from, .len = (size_t)(to - from) };
	return 0;
}

int v1_frame_parse(const void *frame, size_t len, struct v1_frame *ret)
{
	const unsigned char *bytes = frame;
	struct v1_frame f = { .parts = 0 };
	struct v1_part channel;
	uint64_t n, i;

	if (len < 8)
		return -EBADMSG;
	/* n offsets delimit n - 1 pieces: the channel and the parts. */
	n = get_u64(bytes);
	if (n < 2 + V1_PARTS_MIN || n > len / 8)
		return -EBADMSG;
	if (n > 2 + V1_PARTS_MAX)
		return -E2BIG;
	if (len < 8 * (1 + n) || get_u64(bytes + 8) != 8 * (1 + n) || get_u64(bytes + 8 * n) != len)
		return -EBADMSG;
	if (piece(bytes, len, 0, &channel) < 0 || channel.len >= sizeof(f.channel) ||
	    memchr(channel.bytes, '\0', channel.len))
		return -EBADMSG;
	memcpy(f.channel, channel.bytes, channel.len);
	for (i = 1; i + 1 < n; i++) {
		if (piece(bytes, len, i, &f.part[f.parts++]) < 0)
			return -EBADMSG;
	}
	*ret = f;
	return 0;
}

size_t v1_frame_size(const char *channel, const struct v1_part *part, size_t parts)
{
	size_t size = 8 * (3 + parts) + strlen(channel), i;

	for (i = 0; i < parts; i++)
		size += part[i].len;
	return size;
}

void v1_frame_write(void *to, const char *channel, const struct v1_part *part, size_t parts)
{
	unsigned char *head = to, *at = head + 8 * (3 + parts);
	size_t len = strlen(channel), i;

	put_u64(head, 2 + parts);
	put_u64(head + 8, (uint64_t)(at - head));
	memcpy(at, channel, len);
	at += len;
	for (i = 0; i < parts; i++) {
		put_u64(head + 8 * (2 + i), (uint64_t)(at - head));
		if (part[i].len > 0)
			memcpy(at, part[i].bytes, part[i].len);
		at += part[i].len;
	}
	put_u64(head + 8 * (2 + parts), (uint64_t)(at - head));
}
