/* Frames of the WebSocket subprotocol v1.kernel.websocket.jupyter.org: one binary
 * message is one Jupyter message.
 *
 * Little-endian u64: n | offset[0..n-1] | channel | header | parent_header |
 * metadata | content | buffer…; offset[0] = 8 * (1 + n) is where the channel
 * begins, the last one is the frame's length. The JSON is not looked at here.
 * No allocation, no I/O; the bytes are foreign and every offset is checked.
 */
#ifndef CARREL_V1_FRAME_H
#define CARREL_V1_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define V1_SUBPROTOCOL "v1.kernel.websocket.jupyter.org"

enum {
	V1_PARTS_MIN = 4,  /* header, parent_header, metadata, content */
	V1_PARTS_MAX = 64, /* with buffers: what the link's JUPYTER_PARTS_MAX lets through */
	V1_CHANNEL_MAX = 16,
};

struct v1_part {
	const void *bytes;
	size_t len;
};

struct v1_frame {
	char channel[V1_CHANNEL_MAX]; /* "" is the shell's */
	struct v1_part part[V1_PARTS_MAX];
	size_t parts;
};

/* Points into bytes. -EBADMSG: not such a frame; -E2BIG: more parts than the bound. ret is untouched then. */
int v1_frame_parse(const void *bytes, size_t len, struct v1_frame *ret);
/* What v1_frame_write() fills. parts from V1_PARTS_MIN to V1_PARTS_MAX, channel shorter than V1_CHANNEL_MAX.
 */
size_t v1_frame_size(const char *channel, const struct v1_part *part, size_t parts);
void v1_frame_write(void *to, const char *channel, const struct v1_part *part, size_t parts);

#endif
