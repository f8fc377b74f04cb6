/* One kernel at the host: its channel to the agent, its queue of executions, and
 * what is known of the process behind it.
 *
 * Frames that arrive in one turn of the loop make one transaction; they are
 * acknowledged to the agent once that is committed. While the store or a live
 * reader is behind, the channel is paused and the flow control reaches the kernel.
 */
#ifndef CARREL_KERNEL_H
#define CARREL_KERNEL_H

#include "execution.h"
#include "link/channel.h"
#include "sandbox.h"
#include "times.h"

enum {
	/* Executions that wait; reference v1. */
	KERNEL_QUEUE_MAX = 100,
	/* Messages that are not Jupyter's before the sandbox counts as broken: user
	 * code can write to the kernel's own sockets, so a few are no proof. */
	KERNEL_BAD_MAX = 1000,
	/* While a paused channel waits for its reader or the store. */
	KERNEL_RESUME_MS = 250,
	/* An acknowledgement wakes the guest in the middle of a cell, and under software
	 * emulation that costs milliseconds: so it waits a little, but never until the
	 * agent's CHANNEL_RETAIN_MAX is in sight. */
	KERNEL_ACK_MS = 200,
	KERNEL_ACK_BYTES = 256 * 1024,
	/* Frames that change nothing (busy, replies) are stored with the next that do. */
	KERNEL_UNSTORED_MAX = 64 * 1024,
	/* After a time-out: for the interrupt to work, then for the kill. A cold
	 * traceback takes a second under software emulation. */
	KERNEL_INTERRUPT_GRACE_MS = 5 * 1000,
	KERNEL_KILL_GRACE_MS = 15 * 1000,
};

/* The kernel that is inside every snapshot. */
#define KERNEL_DEFAULT_ID "k-default"

enum kernel_state { KERNEL_STARTING, KERNEL_IDLE, KERNEL_BUSY, KERNEL_DEAD };

struct kernel {
	struct core *core;
	struct sandbox *sandbox; /* NULL once the sandbox ended */
	struct kernel *next;
	unsigned refs;
	char id[STORE_ID_MAX];       /* unique on this host */
	char agent_id[STORE_ID_MAX]; /* its name inside the sandbox */
	const char *name, *language; /* static */
	char session[UUID_SIZE];
	struct channel *channel;
	enum kernel_state state;
	int64_t execution_count;
	uint64_t generation;
	bool exists;     /* the agent has it */
	bool creating;   /* POST /kernels is under way */
	bool restarted;  /* the next `started` says so */
	bool restarting; /* POST restart is under way */
	bool interrupt_wanted;
	unsigned bad_messages;
	struct execution *running, *queue, **queue_last;
	unsigned queued;

	struct store_txn *txn;  /* of this turn */
	uint64_t restored_sent; /* from the row; counts until the first attach */
	bool restored;
	uint64_t batch_seq, safe_seq; /* received, committed */
	size_t unstored, unacked;     /* bytes received since the last transaction, committed since the last
					 acknowledgement */
	struct execution *finished;   /* ended in this turn, their last rows still unwritten */
	struct hub_item flush;
	bool paused;
	struct hub_timer *resume, *ack;
};

/* Adds the default kernel. exists: a clone has it, a booted machine must start it. */
struct kernel *kernel_new(struct sandbox *sb, const char *id, const char *agent_id, const char *language,
			  bool exists);
void kernel_ref(struct kernel *k);
void kernel_unref(struct kernel *k);
/* The id on this host of a sandbox's default kernel. */
void kernel_default_id(const char *sandbox_id, char ret[STORE_ID_MAX]);
struct kernel *kernel_find(struct sandbox *sb, const char *id);
/* NULL: this language is not known here. */
const char *kernel_language(const char *language);
/* The link is up: create the kernel if it must be, and attach. */
void kernel_link_up(struct kernel *k);
/* Takes the execution into the queue; its row is in the transaction. */
void kernel_queue(struct kernel *k, struct execution *e);
/* The same for one whose row is stored already. */
void kernel_queue_restored(struct kernel *k, struct execution *e);
/* Starts the next execution if there is one and the kernel is free. */
void kernel_pump(struct kernel *k);
void kernel_interrupt(struct kernel *k);
void kernel_restart(struct kernel *k);
/* Takes a queued execution out; false when it is not in the queue. */
bool kernel_unqueue(struct kernel *k, struct execution *e);
/* What changed will be written at the end of this turn. Returns the turn's transaction. */
struct store_txn *kernel_txn(struct kernel *k);
/* Sends a request; the returned seq is > 0, or a negative errno. */
int64_t kernel_send(struct kernel *k, const char *msg_id, const char *msg_type, json_t *content);
/* At the core's stop: lets go of executions without ending them. */
void kernel_release(struct kernel *k);
/* The sandbox ended: everything in it ends with its reason. */
void kernel_sandbox_ended(struct kernel *k, const char *reason);

/* An execution of this kernel ended: takes it out of the run or the queue, keeps
 * it until its last rows are written, starts the next. */
void kernel_finished(struct kernel *k, struct execution *e);
/* Looks whether the channel may go on. */
void kernel_unpause(struct kernel *k);

/* kernel_frames.c */
extern const struct channel_ops kernel_channel_ops;
/* kernel_batch.c: writes this turn's transaction and acknowledges it once committed. */
void kernel_flush(void *arg);

#endif
