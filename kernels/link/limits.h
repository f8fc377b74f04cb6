/* Limits of the border between host and guest.
 *
 * Compiled for both sides. Every quantity that the other side controls is
 * bounded by a name in this file; the reason stands beside it.
 */
#ifndef CARREL_LINK_LIMITS_H
#define CARREL_LINK_LIMITS_H

enum {
	/* One COBS record on the wire, its 0x00 delimiter included. A torn
	 * record costs at most this much before the reader is in step again. */
	LINK_RECORD_MAX = 16 * 1024,

	/* HTTP/2 flow control windows, in bytes. The stream's is what its reader may
	 * leave unread; the connection's only bounds what is under way. */
	LINK_CONNECTION_WINDOW = 1024 * 1024,
	LINK_STREAM_WINDOW = 256 * 1024,

	/* Bytes a stream buffers for the peer before link_write() accepts no more. */
	LINK_STREAM_BUFFER = 256 * 1024,

	/* Concurrent HTTP/2 streams: kernels, processes and transfers of one sandbox. */
	LINK_STREAMS_MAX = 256,

	/* Request path with its query, and the header block as a whole. */
	LINK_PATH_MAX = 8 * 1024,
	LINK_HEADERS_MAX = 32 * 1024,

	/* Milliseconds without an answer to a PING before the peer counts as gone. */
	LINK_PING_INTERVAL_MS = 5 * 1000,
	LINK_PING_TIMEOUT_MS = 20 * 1000,
	/* Milliseconds between two HELLOs of a client that got no answer. */
	LINK_HELLO_INTERVAL_MS = 100,

	/* One channel frame: a whole Jupyter message with its buffers. */
	CHANNEL_FRAME_MAX = 16 * 1024 * 1024,
	/* Unacknowledged bytes one channel keeps for replay. Past it a connected
	 * sender stops reading its source; a disconnected one drops from the middle. */
	CHANNEL_RETAIN_MAX = 4 * 1024 * 1024,
	/* An acknowledgement goes with the next frame, or once so many bytes wait
	 * for it, or this much later: alone it would wake the peer for nothing. */
	CHANNEL_ACK_BYTES = 64 * 1024,
	LINK_LATER_MS = 50,

	/* Parts of one Jupyter message: header, parent, metadata, content, buffers. */
	JUPYTER_PARTS_MAX = 64,

	/* Request bodies of the agent's own routes (JSON; files are streamed). */
	AGENT_JSON_MAX = 1024 * 1024,
	AGENT_KERNELS_MAX = 32,
	AGENT_PROCESSES_MAX = 128,
};

#endif
