/* The WebSocket of a kernel at the appliance, seen from `carrel kernel`: one
 * session that outlives its connections.
 *
 * Messages are numbered in both directions and acknowledged (appliance/door/door.h);
 * after a cut the connection is made again, and what either side lacks is sent
 * again, so that each message arrives once, in order.
 */
#ifndef CARREL_REMOTE_KERNEL_H
#define CARREL_REMOTE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "../command/where.h"
#include "../jupyter/v1_frame.h"

enum {
	/* One message, as the appliance takes it. */
	REMOTE_MESSAGE_MAX = 16 * 1024 * 1024 - 64 * 1024,
	/* Kept for an appliance that is away. */
	REMOTE_KEEP_MAX = 64 * 1024 * 1024,
	REMOTE_ACK_EVERY = 64,
	REMOTE_ACK_BYTES = 256 * 1024,
	REMOTE_ACK_MS = 200,
	REMOTE_RETRY_MS = 100,
	REMOTE_RETRY_MAX_MS = 5000,
};

struct remote_ops {
	/* False: not now; it is given again after remote_go_on(). */
	bool (*message)(const struct v1_frame *f, void *arg);
	/* The first time, and after each cut. known: nothing is missing. */
	void (*connected)(bool known, void *arg);
	/* The connection is away; it is tried again by itself until remote_close(). */
	void (*away)(void *arg);
};

struct remote;

/* NULL: out of memory, or libwebsockets does not start. where is borrowed; proxy as proxy_find() gives it. */
struct remote *remote_new(uv_loop_t *loop, const struct where *where, const char *proxy,
			  const struct remote_ops *ops, void *arg);
/* To that kernel from now on. */
void remote_connect(struct remote *r, const char *kernel_id);
/* -EMSGSIZE, -ENOBUFS: more than REMOTE_KEEP_MAX waits; -ENOMEM. */
int remote_send(struct remote *r, const char *channel, const struct v1_part *part, size_t parts);
void remote_go_on(struct remote *r);
/* What was sent and is not acknowledged is not sent again. In connected() only. */
void remote_forget(struct remote *r);
/* All that was sent is acknowledged. */
bool remote_is_empty(const struct remote *r);
/* The loop must run until it is empty. Accepts NULL. */
void remote_close(struct remote *r);

#endif
