/* What the files of a transfer share: its state, and the ends that both directions have. */
#ifndef CARREL_TRANSFER_INNER_H
#define CARREL_TRANSFER_INNER_H

#include "transfer.h"

struct transfer {
	struct sandbox *sandbox;
	struct transfer *next;
	struct link_stream *stream; /* NULL once closed */
	struct bytepipe *pipe;      /* the hub's reference; NULL once closed */
	struct hub_item item, release;
	struct hub_timer *timer;
	struct hub *hub;
	int status;
	bool timed_out, body_done, worker_failed;

	/* put */
	struct file_put *put;
	struct buf reply;
	/* bytes that one side gave and the other has not taken; at most a stream window */
	struct buf held;
	size_t held_at;

	/* get */
	struct transfer_waiter *getter; /* until the head came */
};

/* In sb's list, with a pipe. NULL: out of memory. */
struct transfer *transfer_new(struct sandbox *sb);
/* In the list of w's sandbox, with its stream to the agent's /files open. NULL:
 * w->call was ended with the reason. */
struct transfer *transfer_open(struct transfer_waiter *w, const char *method, bool has_body,
			       const struct link_stream_ops *ops);
/* The stream is gone and nobody waits: the memory goes once what was posted has run. */
void transfer_over(struct transfer *t);
/* Drops the hub's reference; fault NULL: a clean end. */
void transfer_close_pipe(struct transfer *t, const struct fault *fault);
/* "ROUTE?path=P" in b. */
const char *transfer_url(struct buf *b, const char *route, const char *path);
/* What a stream's closed() err means to a waiter. */
int transfer_error(const struct transfer *t, int err);
/* guest_fault() for an answer about files: tells the host's full disk from the guest's own trouble. */
int transfer_fault(const struct core *c, struct fault *f, int err, int status, json_t *reply);
/* Ends w->call: it did not even begin. */
void transfer_fail(struct transfer_waiter *w, int err);
/* A stream's data() that gathers the agent's JSON in t->reply. */
void transfer_reply_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg);

#endif
