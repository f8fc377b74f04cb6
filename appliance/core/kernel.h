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
	/* Submitted to the store and not committed: what a flood may put before another sandbox's cell, which waits for
	 * the same disk. Less did not make that wait shorter, more made it longer (measured: 32 KiB to 4 MiB). */
	KERNEL_UNCOMMITTED_MAX = 128 * 1024,
	/* So many bytes of a running cell are a flood's: others' rows need not wait for them. */
	KERNEL_BULK = 16 * 1024,
	/* Frames that change nothing (busy, replies) are stored with the next that do. */
	KERNEL_UNSTORED_MAX = 64 * 1024,
	/* After a time-out: for the interrupt to work, then for the kill. A cold
	 * traceback takes a second under software emulation; five hundred forks of forks
	 * at their limit of memory take the kernel up to a minute to take apart. */
	KERNEL_INTERRUPT_GRACE_MS = 5 * 1000,
	KERNEL_KILL_GRACE_MS = 150 * 1000,
};

/* The kernel that is inside every snapshot. */
#define KERNEL_DEFAULT_ID "k-default"

/* Named reasons of cells that their kernel's end took with it. */
#define REASON_KERNEL_RESTARTED "kernel-restarted"
#define REASON_KERNEL_DELETED "kernel-deleted"
#define REASON_KERNEL_FAILED "kernel-failed"
/* Of a queued cell, when one before it failed and its session stops on errors. */
#define REASON_AFTER_ERROR "after-error"

enum kernel_state { KERNEL_STARTING, KERNEL_IDLE, KERNEL_BUSY, KERNEL_DEAD };

/* What a caller can wait for. */
enum kernel_wait { KERNEL_WAIT_START, KERNEL_WAIT_RESTART, KERNEL_WAIT_GONE };

struct kernel_waiter {
	struct hub_call call;
	struct core *core;
	const char *owner, *sandbox_id, *id; /* id: the kernel's */
	const struct kernel_spec *spec;
	unsigned limit;
	const char *cursor;
	enum kernel_wait what;
	json_t *result;
	struct kernel_waiter *next;
};

struct client;
struct client_request;

struct kernel {
	struct core *core;
	struct sandbox *sandbox; /* NULL once the sandbox ended */
	struct kernel *next;
	unsigned refs;
	char id[STORE_ID_MAX];       /* unique on this host */
	char agent_id[STORE_ID_MAX]; /* its name inside the sandbox */
	char name[KERNEL_NAME_MAX], language[KERNEL_NAME_MAX];
	char *cwd;    /* what it is to be started with, or NULL */
	bool by_name; /* it is asked for by name, not by language */
	char session[UUID_SIZE];
	struct channel *channel;
	enum kernel_state state;
	int64_t execution_count;
	uint64_t generation;
	bool exists;     /* the agent has it */
	bool creating;   /* POST /kernels is under way */
	bool restarted;  /* the next `started` says so */
	bool restarting; /* POST restart is under way */
	bool essential;  /* a booted machine's first: without it there is no sandbox */
	bool alive_due;  /* the agent will say when it can take code */
	bool restart_wanted, restart_answered, restart_again;
	bool stopping, deleting, gone; /* DELETE was asked for, is under way; the agent has it no more */
	struct kernel_waiter *waiters;
	struct hub_item settle;
	bool interrupt_wanted;
	unsigned bad_messages;
	struct execution *running, *queue, **queue_last;
	unsigned queued;
	int64_t activity_ms; /* when it last said something; 0: not since the start */
	uint64_t entered; /* executions that were queued so far */

	/* client.h: sessions; their requests that wait to be sent, and those that wait for a reply. */
	struct client *clients;
	struct client_request *passing, **passing_last, *asked, **asked_last;
	unsigned requests;

	struct store_txn *txn;  /* of this turn */
	uint64_t restored_sent; /* from the row; counts until the first attach */
	bool restored;
	uint64_t batch_seq, safe_seq; /* received, committed */
	size_t unstored, unacked;     /* bytes received since the last transaction, committed since the last
					 acknowledgement */
	size_t uncommitted;           /* of transactions that are not committed yet */
	struct execution *finished;   /* ended in this turn, their last rows still unwritten */
	struct hub_item flush;
	bool paused;
	struct hub_timer *resume, *ack;
};

/* Adds a kernel behind the others. exists: the agent has it; else kernel_link_up() starts it. */
struct kernel *kernel_new(struct sandbox *sb, const char *id, const char *agent_id, const char *language,
			  bool exists);
void kernel_ref(struct kernel *k);
void kernel_unref(struct kernel *k);
/* NULL also for one that is being deleted. */
struct kernel *kernel_find(struct sandbox *sb, const char *id);
/* The same in any sandbox of that owner. */
struct kernel *kernel_of_owner(const struct core *c, const char *owner, const char *id);
/* The link is up: create the kernel if it must be, and attach. */
void kernel_link_up(struct kernel *k);
void kernel_attach(struct kernel *k);
/* Takes the execution into the queue; its row is in the transaction. */
void kernel_queue(struct kernel *k, struct execution *e);
/* The same for one whose row is stored already. */
void kernel_queue_restored(struct kernel *k, struct execution *e);
/* Puts what runs back in front: the kernel lacks some of its requests. */
void kernel_requeue(struct kernel *k);
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
/* The same with a client's own header and metadata. */
int64_t kernel_send_asked(struct kernel *k, json_t *asked, json_t *content);
/* At the core's stop: lets go of executions without ending them. */
void kernel_release(struct kernel *k);
/* The sandbox ended: everything in it ends with its reason. */
void kernel_sandbox_ended(struct kernel *k, const char *reason);

/* An execution of this kernel ended: takes it out of the run or the queue, keeps
 * it until its last rows are written, starts the next. */
void kernel_finished(struct kernel *k, struct execution *e);
/* Looks whether the channel may go on. */
void kernel_unpause(struct kernel *k);

/* kernels.c: the kernels of a sandbox. */
/* The image's language of that name, its first one for NULL; NULL: it has none such. */
const char *kernel_language(const struct image *image, const char *language);
/* The image's languages in their order, the first being the default; NULL behind the last. */
const char *kernel_language_at(const struct image *image, size_t i);
/* The name inside the sandbox of the default kernel of a language. */
void kernel_default_agent_id(const struct image *image, const char *language, char ret[STORE_ID_MAX]);
/* The default kernel's id on this host, and its name inside the sandbox. */
void kernel_default_ids(const struct sandbox *sb, const char *language, char ret_id[STORE_ID_MAX],
			char ret_agent_id[STORE_ID_MAX]);
/* Of that language, which was deleted or never was: *ret NULL. Not while it is being deleted. */
int kernel_default(struct sandbox *sb, const char *language, struct kernel **ret, struct fault *f);
/* Starts it; what is queued meanwhile runs once it can. */
int kernel_default_start(struct sandbox *sb, const char *language, struct kernel **ret, struct fault *f);
int kernel_room(const struct sandbox *sb, struct fault *f);
/* As the REST face shows it; a new reference. */
json_t *kernel_json(const struct kernel *k);

/* kernel_verbs.c: start, restart and deletion, asked for from outside. */
void kernel_wait(struct kernel *k, enum kernel_wait what, struct kernel_waiter *w);
void kernel_restart_wanted(struct kernel *k);
/* Looks whether a restart that was asked for is over. */
void kernel_restart_check(struct kernel *k);
void kernel_delete(struct kernel *k);
/* Name and language as the agent's list of kernels has them; false: it is not in there. */
bool kernel_named(struct kernel *k, json_t *kernels);
/* The agent's answers to POST /kernels and POST restart. */
void kernel_create_answered(struct kernel *k, int err, int status, json_t *reply);
void kernel_restart_failed(struct kernel *k, int err, int status, json_t *reply);
/* The agent does not have it (any more). */
void kernel_is_gone(struct kernel *k);
/* Nobody will be told anything any more: the sandbox ends, or the core. */
void kernel_waiters_end(struct kernel *k);
/* The sandbox is paused: what they asked for goes on when it is resumed. */
void kernel_waiters_paused(struct kernel *k);

/* kernel_sweep.c: once after a restart. */
void kernels_sweep(struct sandbox *sb);

/* kernel_frames.c */
extern const struct channel_ops kernel_channel_ops;
/* kernel_batch.c: writes this turn's transaction and acknowledges it once committed. */
void kernel_flush(void *arg);

#endif
