/* What the files of local.h share. */
#ifndef CARREL_LOCAL_INNER_H
#define CARREL_LOCAL_INNER_H

#include "core/message.h"
#include "held.h"
#include "local.h"

struct local {
	uv_loop_t *loop;
	void *zmq;
	void *sock[LOCAL_CHANNELS];
	uv_poll_t poll[LOCAL_CHANNELS];
	/* ZeroMQ's descriptors tell of edges only, and any use of a socket may eat one: such a socket is
	   looked at before the next sleep. */
	bool look[LOCAL_CHANNELS];
	uv_prepare_t prepare;
	uv_idle_t again; /* a burst left something: no sleep before the next */
	uv_timer_t retry;
	uv_work_t work;
	struct held output, questions;
	bool full; /* output was refused */
	bool reading;
	struct wire_signer signer;
	struct session session;
	const struct local_ops *ops;
	void *arg;
	bool closing;
	unsigned parts; /* what is still to be closed */
};

/* local_out.c: without waiting. -EAGAIN: no room; -EHOSTUNREACH: nobody is there. */
int local_send_frames(struct local *l, enum local_channel channel, const struct slice *frame, size_t n);

#endif
