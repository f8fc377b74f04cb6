/* Bytes of one file on their way between a worker's bytepipe and a stream of
 * the link, each side at its own pace, and the small file requests beside them.
 *
 * Hub thread only. A transfer ends exactly once: by the agent's answer, by the
 * worker's hang-up, or by the sandbox's end.
 */
#ifndef CARREL_TRANSFER_H
#define CARREL_TRANSFER_H

#include "buf.h"
#include "bytepipe.h"
#include "sandbox.h"

enum {
	/* The agent's answer to a file request, once the body is complete. A large
	 * file's fsync on a loaded host takes its time. */
	TRANSFER_ANSWER_MS = 120 * 1000,
};

/* Which file, for the audit; borrowed from the request. */
struct file_move {
	const char *owner, *sandbox_id, *path;
};

struct file_put {
	struct hub_call call; /* finish() waits in it */
	struct core *core;
	struct file_move move;
	struct transfer *transfer;
	bool over;
	bool waiting; /* finish()'s call has arrived on the hub; before that it is still in its queue */
	int err, status;
	json_t *reply;
};

struct transfer_waiter {
	struct hub_call call;
	struct core *core;
	const char *owner, *sandbox_id, *path;
	bool recursive;
	unsigned limit;
	const char *cursor;
	struct file_put *put;
	struct bytepipe *pipe; /* the worker's reference */
	int64_t size;
	json_t *result;
};

/* Each ends w->call; see core.h. */
void transfer_put_begin(struct transfer_waiter *w);
void transfer_get(struct transfer_waiter *w);
void transfer_delete(struct transfer_waiter *w);
void transfer_list(struct transfer_waiter *w);
/* Ends call once the put is over, with its err and fault. */
void transfer_put_finish(struct hub_call *call);
void transfers_sandbox_ended(struct sandbox *sb);

#endif
