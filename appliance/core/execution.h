/* One execution: a row, an event log, outputs, and at most one run in its kernel.
 *
 * Life: committing (its row is on its way) -> queued -> running -> ended. The code
 * is sent only after the row is committed; the msg_id is the execution's id, or a client's own. The
 * end event is written exactly once, by execution_end(), whoever is first.
 */
#ifndef CARREL_EXECUTION_H
#define CARREL_EXECUTION_H

#include "core_inner.h"
#include "events.h"
#include "jupyter.h"
#include "output.h"
#include "unstored.h"

struct kernel;

enum execution_state { EXECUTION_COMMITTING, EXECUTION_QUEUED, EXECUTION_RUNNING, EXECUTION_ENDED };

/* Why an execution is being stopped while it runs. */
enum execution_stop { STOP_NONE, STOP_INTERRUPT, STOP_TIMEOUT, STOP_OUTPUT, STOP_RESTART };

struct execution {
	struct core *core;
	struct kernel *kernel; /* NULL once it ended */
	struct execution *next;
	unsigned refs;
	char id[STORE_ID_MAX], sandbox_id[STORE_ID_MAX], kernel_id[STORE_ID_MAX];
	char *code; /* until it was sent */
	/* Of a Jupyter client: {"client": its session, "header", "metadata", "content" without code}; else NULL. */
	json_t *asked;
	char msg_id[JUPYTER_ID_MAX]; /* what the kernel knows it by: the client's own, else the id */
	uint64_t entry;              /* among all that were queued for the kernel */
	bool doubtful;               /* whether the kernel has it is a guess, which is being probed */
	bool seen;                   /* the kernel spoke of it */
	uint64_t stops;              /* it failed: those up to this entry are not to run */
	json_t *env;
	unsigned timeout_s;
	enum execution_state state;
	enum execution_stop stop;
	bool started, replied, idle, changed, spent_grace, kernel_restarted;
	char status[16], reason[SPAWN_REASON_MAX], signal[32];
	int exit_code;
	int64_t execution_count, queued_ms, started_ms, ended_ms;
	int64_t began_mono_ms;
	int64_t ran_ms;    /* while it is held */
	int64_t paused_ms; /* held since it started, in all; no time of its own */
	uint64_t sent_seq;    /* of its code's frame to the kernel */
	unsigned frames_sent; /* of those execution_send() makes; a restart may have left some with the agent
			       */
	struct xlog *log;
	struct events events;
	/* Why something of it was not stored that should have been, 0: nothing. Only its end comes after that. */
	int lost;
	uint64_t said_seq, said_bytes; /* events before the end, stored or not */
	uint64_t output_bytes, output_kept; /* its sandbox's limit counts them; what of them was taken */
	int64_t duration_ms;           /* once it ended */
	struct unstored_end unstored;
	size_t end_at; /* where the end event begins in events.lines */
	struct outputs outputs;
	struct hub_timer *timer;
	struct hub_item progress, release;
	struct execution_waiter *waiter;
};

struct execution_waiter {
	struct hub_call call;
	struct core *core;
	const char *owner, *sandbox_id, *id;
	const struct execute_spec *spec;
	struct xlog *log; /* taken over by the execution */
	/* Of one that no thread waits for: told in place of the call's end. */
	void (*done)(struct execution_waiter *w, int err);
};

/* Makes it, queues it, submits its row; w->call ends at the commit. */
void execution_submit(struct execution_waiter *w);
struct execution *execution_find(struct core *c, const char *owner, const char *id);
/* POST interrupt: a queued one is cancelled. */
void execution_interrupt(struct execution *e);

/* --- for the kernel and for recovery --- */
/* state COMMITTING; takes over the log's reference. NULL: out of memory, the log stays the caller's. */
struct execution *execution_new(struct kernel *k, const char *id, struct xlog *log);
/* Before it is queued: that a client asked for it. */
void execution_asked(struct execution *e, json_t *asked);
/* Posted by a reader that caught up, and by its own timer. */
void execution_progress(void *arg);
void execution_timer(void *arg);
void execution_ref(struct execution *e);
void execution_unref(struct execution *e);
/* Sends the code; negative errno when the channel takes no more now. */
int execution_start(struct execution *e);
/* Asks the kernel something behind it, whose answer shows whether it is there. */
void execution_probe(struct execution *e);
/* True: m is the end of that answer, and nothing of the execution came before. */
bool execution_is_missing(const struct execution *e, const struct jupyter_msg *m);
/* How many requests that takes. */
unsigned execution_frames(const struct execution *e);
void execution_message(struct execution *e, const struct jupyter_msg *m);
/* execution_output.c: everything it says but its end. */
void execution_started(struct execution *e, int64_t count);
void execution_output(struct execution *e, const struct jupyter_msg *m);
void execution_stream(struct execution *e, struct store_txn *t, const char *stream, const char *text, size_t len);
/* Interrupts it; past its grace the kernel is started anew. */
void execution_stop(struct execution *e, enum execution_stop why);
/* True: its sandbox's limit is reached, and m is more output of it. */
bool execution_is_full(const struct execution *e, const struct jupyter_msg *m);
/* Frames that the agent had to drop while nobody listened. */
void execution_gap(struct execution *e, uint64_t frames, uint64_t bytes);
/* Its kernel's process died under it. death: the 'S' frame. */
void execution_died(struct execution *e, json_t *death);
/* status: ok, error, interrupted, timeout, died, cancelled. reason may be NULL. Idempotent. */
void execution_end(struct execution *e, const char *status, const char *reason);
/* Writes lines and rows that changed into t. */
void execution_flush(struct execution *e, struct store_txn *t);
/* The end and the last row once more, behind what the log has by now; that lines are missing is said. */
void execution_end_again(struct execution *e, struct store_txn *t);
/* Arms the timer with what is left of timeout_s. */
void execution_arm(struct execution *e, int64_t ran_ms);

/* Its machine stands still; it goes on after stood_ms. */
void execution_hold(struct execution *e);
void execution_go_on(struct execution *e, int64_t stood_ms);

#endif
