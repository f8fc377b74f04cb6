/* One command in a sandbox: the agent's process channel to the NDJSON of the REST face.
 *
 * Hub thread only. Lives while its reader does: a worker that closes its pipe
 * kills the process and its group. A reader that is slow pauses the channel, and
 * the flow control reaches the process.
 */
#ifndef CARREL_PROCESS_H
#define CARREL_PROCESS_H

#include "bytepipe.h"
#include "sandbox.h"

enum {
	/* One frame of input; the agent reads them one by one. */
	PROCESS_INPUT_FRAME = 64 * 1024,
	/* From the last frame's acknowledgement to the agent's own end of the stream. */
	PROCESS_LINGER_MS = 5 * 1000,
	PROCESS_KILL_MS = 10 * 1000, /* from SIGKILL to the last frame */
};

struct process_waiter {
	struct hub_call call;
	struct core *core;
	const char *owner, *sandbox_id;
	const struct process_spec *spec;
	struct bytepipe *pipe; /* the worker's reference */
};

/* Ends w->call once the process runs, or with the reason why not. */
void process_run(struct process_waiter *w);
/* One that an earlier carreld started: its reader is gone with that, so it is abandoned. */
int process_restore(struct sandbox *sb, const char *id);
void processes_link_up(struct sandbox *sb);
/* Time limits stand still with the machine, and go on after stood_ms. */
void processes_hold(struct sandbox *sb);
void processes_go_on(struct sandbox *sb, int64_t stood_ms);
/* A new array of the ids of those that the agent has. */
json_t *processes_ids(const struct sandbox *sb);
void processes_sandbox_ended(struct sandbox *sb);

#endif
