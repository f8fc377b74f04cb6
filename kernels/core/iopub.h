/* What a kernel publishes: one queue, one XPUB socket, sent in order.
 *
 * Others append to its queue. Text of a stream joins the last message of the
 * queue when that has the same stream and parent, so that a loop of prints is
 * few messages. Nothing is dropped: a slow subscriber stops the sending thread
 * (ZMQ_XPUB_NODROP), then the queue fills, then iopub_wait_room() holds whoever
 * makes output. Status, replies and ends never wait: iopub_put() always takes.
 *
 * A thread of its own sends; iopub_put_idle() does it from the caller's, so that
 * a short cell costs no switch of threads. sock_lock is whose turn it is.
 *
 * The thread never takes an interpreter's lock. It also reads the captured
 * descriptors (core/capture.h) when they become readable.
 */
#ifndef CARREL_IOPUB_H
#define CARREL_IOPUB_H

#include <pthread.h>
#include <stdbool.h>
#include <jansson.h>
#include "core/buf.h"
#include "core/message.h"

enum {
	/* Queued bytes past which makers of output wait. */
	IOPUB_QUEUE_MAX = 8 * 1024 * 1024,
	/* Text of one stream message, before JSON escapes. */
	IOPUB_TEXT_MAX = 64 * 1024,
	/* How long a cell's beginning may wait for its end, so that a short cell
	 * is a single burst; below what an eye notices. */
	IOPUB_HOLD_MS = 20,
};

struct capture;
struct unsent;
struct iopub_item;

struct iopub_buffer {
	void *data;
	size_t len;
};

struct iopub {
	void *sock;
	struct session *session;
	struct capture *capture;
	struct unsent *unsent; /* borrowed; NULL: nobody looks after it */
	struct wire_signer signer;
	pthread_t thread;
	bool started;
	pthread_mutex_t sock_lock; /* taken before lock; held while messages are taken and sent */
	int sock_fd;               /* ZMQ_FD */
	int wake_fd;
	int hold_fd; /* timer that ends a hold */
	pthread_mutex_t lock;
	pthread_cond_t room;
	struct iopub_item *head, **tail;
	size_t queued;  /* bytes */
	bool sleeping;  /* in poll: needs wake_fd */
	bool holding;   /* in poll: hold_fd is set */
	bool pacing;    /* reads the capture again soon */
	bool expecting; /* the beginning of a line is kept by capture */
	bool sending;   /* head was taken and is not sent yet */
	bool stopping;  /* leave once the queue is empty */
};

/* sock is bound by the caller and belongs to this object from here on.
 * -errno; nothing is left behind then. */
int iopub_start(struct iopub *io, void *sock, struct session *session, struct capture *capture,
		struct unsent *unsent, const struct wire_signer *signer);
/* Send what is queued, at most for timeout_ms, then close the socket. A thread
 * that a stuck subscriber holds is left alone: the process is about to end. */
void iopub_stop(struct iopub *io, int timeout_ms);

/* Queue a message. content is text of a JSON object (taken over with its
 * memory, also on failure); metadata too, NULL for {}. -ENOMEM. */
int iopub_put(struct iopub *io, const char *type, struct parent *parent, char *content, size_t len,
	      char *metadata, struct iopub_buffer *buffers, size_t n_buffers);
/* The same for a content that is JSON values; steals them. */
int iopub_put_json(struct iopub *io, const char *type, struct parent *parent, json_t *content,
		   json_t *metadata);
/* Queue valid UTF-8 of a stream: 0 stdout, 1 stderr. At most IOPUB_TEXT_MAX bytes. -ENOMEM. */
int iopub_put_text(struct iopub *io, int stream, struct parent *parent, const char *text, size_t len);
/* Text waits in the capture for the rest of its line: drain it after a while. */
void iopub_expect_text(struct iopub *io);
/* hold: it, the cell's input and its result wait for output or the next status,
 * at most IOPUB_HOLD_MS. */
int iopub_put_status(struct iopub *io, const char *state, struct parent *parent, bool hold);
/* The status that ends a request. All that is queued leaves before this returns,
 * as far as subscribers have room for it at once. */
int iopub_put_idle(struct iopub *io, struct parent *parent);

/* 0 once the queue is below its limit, -ETIMEDOUT after timeout_ms. */
int iopub_wait_room(struct iopub *io, int timeout_ms);
/* 0 once all is handed to libzmq, -ETIMEDOUT after timeout_ms. */
int iopub_wait_empty(struct iopub *io, int timeout_ms);

#endif
