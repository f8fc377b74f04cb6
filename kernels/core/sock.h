/* ZeroMQ sockets as a kernel uses them: bound, bounded, whole messages. */
#ifndef CARREL_SOCK_H
#define CARREL_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <zmq.h>
#include "core/wire.h"

enum {
	/* Largest frame taken from a client. The agent's own limit for a whole
	 * message is 16 MiB; a plain client may send more code than that. */
	SOCK_FRAME_MAX = 64 * 1024 * 1024,
	/* Messages that wait for one subscriber; then sending waits. Of a flood
	 * each is at most IOPUB_TEXT_MAX bytes. After every half of it libzmq wakes
	 * the sender: with less that would be every short cell or two. */
	SOCK_XPUB_HWM = 64,
	/* Milliseconds that closing waits for what is not sent yet. */
	SOCK_LINGER_MS = 1000,
};

/* One received multipart message. */
struct frames {
	zmq_msg_t msg[WIRE_FRAMES_MAX];
	struct slice slice[WIRE_FRAMES_MAX];
	size_t n;
};

/* A socket of the type, bound. NULL with errno set. */
void *sock_bind(void *zctx, int type, const char *address);
/* What an XPUB received: a subscription, which is in force from here on, or the end of one. A subscriber
 * gets nothing before, so that its greeting can be the first. True: a subscription. */
bool sock_subscribe(void *sock, const void *frame, size_t len);
/* One message without waiting. -EAGAIN: none; -E2BIG: it had more frames than a
 * message has, and was dropped whole; -errno of zmq otherwise. frames_free() it. */
int sock_recv(void *sock, struct frames *ret);
void frames_free(struct frames *f);
/* One message. wait: for room when the socket's type does; else -EAGAIN when there is none, and nothing was sent. */
int sock_send(void *sock, const struct slice *frame, size_t n, bool wait);

#endif
