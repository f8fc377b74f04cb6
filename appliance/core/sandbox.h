/* One sandbox: its state machine, its deadline, and the one owner of everything
 * that belongs to it: machine, scratch disk, link, kernels, processes, transfers.
 *
 * Hub thread only. creating -> running <-> paused -> ending -> ended(reason); every end goes
 * through sandbox_end(), from any state, and frees in one place (sandbox_finish).
 * What lies between running and paused is life.h's.
 */
#ifndef CARREL_SANDBOX_H
#define CARREL_SANDBOX_H

#include "base.h"
#include "core_inner.h"
#include "guest.h"
#include "snapshot.h"
#include "state.h"
#include "unstored.h"
#include "usage.h"

enum {
	/* No sandbox lives longer without being asked for again. */
	SANDBOX_IDLE_MAX_S = 86400,
	SANDBOX_PROLONG_MS = 60 * 1000,
};

struct kernel;
struct life;
struct process;
struct set;
struct source;
struct transfer;

/* Waits for a sandbox to run, or to be gone. */
struct sandbox_waiter {
	struct hub_call call;
	struct core *core;
	const char *owner, *id;
	struct sandbox_spec *spec;
	unsigned quota; /* sandboxes its owner may have */
	unsigned timeout_s;
	struct source *source; /* of a copy; borrowed */
	json_t *result;
	/* Of one that no thread waits for: told in place of the call's end. */
	void (*done)(struct sandbox_waiter *w, int err);
	struct sandbox_waiter *next;
};

/* A clone with its link and an identity of its own, that nobody used. */
struct ready_machine {
	struct vm *vm;
	struct guest *guest;
	struct limits limits;    /* that its agent was told */
	uint64_t received, sent; /* where its kernel's channel stands */
	json_t *kernels;         /* as its agent named them */
	char agent_path[512];
};

struct sandbox {
	struct core *core;
	struct engine *engine;
	struct sandbox *next;
	char id[STORE_ID_MAX], owner[STORE_ID_MAX];
	enum sandbox_state state;
	char template_name[64], image[72];
	struct image *from; /* its image, open: the default one where its own is gone from the cache */
	const char *started; /* "clone", "boot", "pool", "fork", "snapshot" */
	struct limits limits;
	json_t *env, *metadata;
	struct vm_class cls;
	int64_t created_ms, deadline_ms, ended_ms;
	unsigned timeout_s;    /* last asked for */
	bool pause_on_timeout; /* else it ends */
	bool auto_resume;      /* by any request that needs it running */
	int64_t paused_ms;     /* since when; 0: it is not paused */
	char reason[SPAWN_REASON_MAX], message[SPAWN_MESSAGE_MAX];

	struct template *template;               /* what it is cloned from; NULL: booted, or */
	struct source *source;                   /* started from this, until it runs */
	struct base base;                        /* the warm snapshot under its memory */
	uint64_t channel_received, channel_sent; /* where its snapshot's default kernel stands */
	struct snapshot_channel warm[SNAPSHOT_WARM_MAX]; /* and others in it */
	unsigned warm_count;
	json_t *ready_kernels;                   /* of a machine that was taken over */
	enum { START_OVER, START_WAITS, START_RUNS } start; /* starts.h */
	struct vm *vm;
	bool vm_ended;
	char agent_path[512];
	bool adopted; /* from before a restart, until it is known what it does */
	char gone_reason[SPAWN_REASON_MAX], gone_message[SPAWN_MESSAGE_MAX];

	struct life *life;
	bool held;                   /* its processors stand still, and time limits with them */
	int64_t halted_ms;           /* since when they do or did last */
	int64_t running_deadline_ms; /* while that it is paused is being stored */
	bool identified;    /* true for an adopted one from the start */
	bool gave_up_clone; /* its clone did not come up: the machine's end is followed by a boot */
	struct guest *guest;
	struct identity *identity;
	struct kernel *kernels;
	bool kernels_unswept; /* from before a restart: the agent may have more than the rows say */
	struct process *processes;
	struct transfer *transfers;
	struct scratch_job *scratch; /* its disk is being made */
	char scratch_path[512];

	struct hub_timer *deadline_timer, *state_timer;
	struct sandbox_waiter *create; /* waits for it to run */
	struct sandbox_waiter *gone;   /* deletes */
	struct hub_item teardown, finish, gone_item;
	struct unstored_end unstored;
	struct used used;
};

/* NULL when there is no live sandbox of that owner (owner NULL: any). */
struct sandbox *sandbox_find(struct core *c, const char *owner, const char *id);
/* As sandbox_find(), for requests that need it running: fills the fault. */
struct sandbox *sandbox_usable(struct core *c, const char *owner, const char *id, struct fault *f);
/* Admits, puts it into the table and starts it; w->call ends once it runs or failed. */
void sandbox_create(struct core *c, struct sandbox_waiter *w);
/* The first reason stands. Legal from every state and from every callback. */
void sandbox_end(struct sandbox *sb, const char *reason, const char *message);
void sandbox_set_deadline(struct sandbox *sb, int64_t deadline_ms);
/* CLOCK_BOOTTIME at which its keeper ends it, with every other part down. */
uint64_t sandbox_keeper_deadline(const struct sandbox *sb);
/* It lives for timeout_s from now. The row is the caller's to write. */
void sandbox_keep(struct sandbox *sb, unsigned timeout_s);
/* A Jupyter client is there: one that was made for such lives on for its idle time from now. */
void sandbox_prolong(struct sandbox *sb);
/* Admits and starts a copy of what is saved in source; w as in sandbox_create(). */
void sandbox_create_from(struct core *c, struct sandbox_waiter *w, struct source *source);
void sandbox_waiter_end(struct sandbox_waiter *w, int err);
/* Writes its row into a transaction of its own. done may be NULL. */
void sandbox_store(struct sandbox *sb, void (*done)(int err, const char *message, void *arg), void *arg);
/* The same with an audit entry; done comes on the hub, if the sandbox is still there. */
void sandbox_commit(struct sandbox *sb, const char *action,
		    void (*done)(struct sandbox *sb, int err, const char *message));
/* For a transaction of the caller's. */
void sandbox_submit(struct sandbox *sb, struct store_txn *t,
		    void (*done)(struct sandbox *sb, int err, const char *message));
/* As the REST face shows it; a new reference. */
json_t *sandbox_json(const struct sandbox *sb);
/* A record without machine, in the core's table; NULL: out of memory. Takes references to env and metadata.
 */
struct sandbox *sandbox_new(struct core *c, struct engine *engine, const char *id, const char *owner, json_t *env,
			    json_t *metadata);
void sandbox_enter(struct sandbox *sb, enum sandbox_state state);
/* At the core's stop, without the hub's thread: lets go of every sandbox; their machines go on. */
void sandboxes_release(struct core *c);
/* The running state begins: deadline, row, kernels; the waiter hears of it after the commit. */
void sandbox_run(struct sandbox *sb, json_t *kernels);
/* sandbox_kernels.c: the kernels it has then, as its agent lists them. False: out of memory. */
bool sandbox_first_kernels(struct sandbox *sb, json_t *kernels);
/* The row of one that ended, and what goes with it. */
void sandbox_end_add(struct sandbox *sb, struct store_txn *t);
/* What its row should say, for store_known_set(); a new reference. */
json_t *sandbox_end_fields(const struct sandbox *sb);
/* The last of one that ended, once that is stored. */
void sandbox_record_free(struct sandbox *sb);
/* What ends: the machine is gone, or there never was one. */
void sandbox_vm_gone(struct sandbox *sb);

/* sandbox_machine.c: scratch disk, machine, link and identity. */
void sandbox_machine_start(struct sandbox *sb);
/* Instead: one that came up before and stands still. Nothing of m is the caller's afterwards. */
void sandbox_machine_take(struct sandbox *sb, const struct ready_machine *m);
/* Takes over a machine that outlived a restart of carreld. 0 or negative errno: there is none. */
int sandbox_machine_adopt(struct sandbox *sb);
/* A clone that does not come up is booted instead. False: this one cannot. */
bool sandbox_machine_retry(struct sandbox *sb);
void sandbox_machine_free(struct sandbox *sb);
/* Lets go of a machine that has ended, without its disk. Not from inside its callbacks. */
void sandbox_machine_release(struct sandbox *sb);
/* Starts it again from what was saved; scratch_fd is its disk. 0 or negative errno. */
int sandbox_machine_resume(struct sandbox *sb, const struct set *set, int scratch_fd);
/* Connects the link. 0 or -ENOMEM. */
int sandbox_machine_link(struct sandbox *sb, const char *agent_path);
void sandbox_machine_identify(struct sandbox *sb);

/* sandbox_row.c */
void sandbox_row_add(const struct sandbox *sb, struct store_txn *t);

#endif
