/* What is done to a sandbox as a whole: pause, resume, fork, snapshot. Each is a
 * line of steps; one operation at a time, the others of the same sandbox wait in
 * order. Requests to the sandbox wait as well: what a step does is never mixed with
 * anything else. sandbox_end() is legal at every step and ends them all.
 *
 *   pause     files, freeze, halt, save, seal, commit, stop
 *   resume    open, start, link, identity, commit
 *   fork,     files, freeze, halt, save, copy; then the machine goes on (continue,
 *   snapshot  link, identity) while copies start, or the set is sealed and committed
 *
 * Whatever fails before a sandbox counts as paused lets its machine go on; whatever
 * fails before a resumed one counts as running leaves it paused.
 *
 * Hub thread only, but for the core_*() calls.
 */
#ifndef CARREL_LIFE_H
#define CARREL_LIFE_H

#include "sandbox.h"
#include "set.h"

enum {
	/* From the deadline to the keeper's own: room for the pause that was asked for. Saving
	 * 4 GiB takes a minute on a slow disk. */
	LIFE_GRACE_MS = 180 * 1000,
	LIFE_AGAIN_MS = 1000, /* a pause at the deadline that failed for the moment */
	/* While an operation is under way: the sum of what its steps may take. */
	LIFE_KEEPER_MS = 900 * 1000,
	LIFE_COPIES_MAX = 16, /* reference v1 */
	LIFE_SNAPSHOTS_MAX = 100, /* of one owner; each may be as large as memory and disk together */
	LIFE_PAUSED_MAX = 100,    /* of one owner, for the same reason */
	/* Identities that fail before the machine counts as broken: past the agent's own limit for one. */
	LIFE_IDENTITY_TRIES = 60,
	LIFE_IDENTITY_AGAIN_MS = 500,
};

enum life_verb { LIFE_PAUSE, LIFE_RESUME, LIFE_FORK, LIFE_SNAPSHOT, LIFE_SETTLE };

enum life_step {
	LIFE_IDLE,
	LIFE_FILES,
	LIFE_FREEZE,
	LIFE_HALT,
	LIFE_SAVE,
	LIFE_SEAL,
	LIFE_COMMIT,
	LIFE_STOP,
	LIFE_COPY,
	LIFE_OPEN,
	LIFE_START,
	LIFE_FOUND, /* after a restart: whether the machine of a paused one has run is looked at */
	LIFE_CONTINUE,
	LIFE_LINK,
	LIFE_IDENTITY,
	LIFE_GIVE_UP, /* a resume failed: its machine is being stopped */
	LIFE_COPIES,  /* the machine is as it was; copies start, or a snapshot is written */
	LIFE_STEPS,
};

struct copies;
struct life_job;

/* An operation, asked for by another thread or by the deadline. */
struct life_op {
	struct hub_call call;
	struct life_op *next;
	struct core *core;
	const char *owner, *id, *kernel_id; /* settle: of the sandbox, or of a kernel in it */
	enum life_verb verb;
	bool automatic; /* nobody waits for it */
	bool wake;      /* settle: a paused one that wants it is resumed */
	bool settled;   /* what waited for this may try again */
	unsigned quota, timeout_s, count;
	const char *name;
	json_t *result;
};

struct life {
	struct life_op *op, *waiting, automatic;
	bool automatic_asked;
	enum life_step step;
	struct hub_timer *timer, *again; /* of the step; of an identity that failed */
	struct life_job *job;
	struct set set; /* being made, or opened; path "": none */
	bool making;    /* the set's files go when the operation fails */
	bool halted;    /* its processors stand still, by this operation */
	bool back;      /* of a fork or snapshot: the machine is as it was, */
	bool made;      /* and what was made beside it is over */
	unsigned tries;
	int err;
	struct fault fault; /* why the operation fails once the machine is as it was */
	struct copies *copies;
	char made_id[STORE_ID_MAX]; /* of a snapshot, or the files of a fork */
};

struct life *life_new(struct sandbox *sb);
/* Nothing of it may be told any more; work on the pool goes on without it. */
void life_free(struct sandbox *sb);
/* An operation is under way, or a machine is being taken over in the middle of one. */
bool life_busy(const struct sandbox *sb);
/* Is it being woken? It needs memory then. */
bool life_wakes(const struct sandbox *sb);
/* Its deadline passed: pause it. */
void life_deadline(struct sandbox *sb);
/* The sandbox ends: operations end with it. */
void life_cancel(struct sandbox *sb);
/* Queues op, or ends it. */
void life_ask(struct life_op *op);

/* --- for the files of this object --- */
void life_step(struct sandbox *sb, enum life_step step);
/* The operation is over; err < 0 with life->fault. */
void life_end(struct sandbox *sb, int err);
/* The key whose request the operation is; NULL: Carrel's own. */
const char *life_asker(const struct sandbox *sb);
/* It fails with f once the machine is as it was before. */
void life_fail(struct sandbox *sb, int err, const struct fault *f);
void life_set_path(const struct sandbox *sb, char ret[SET_PATH_MAX]);
void life_snapshot_path(const struct core *c, const char *id, char ret[SET_PATH_MAX]);
void life_snapshots_dir(const struct core *c, char ret[BASE_PATH_MAX]);
/* Files of the operation that are not to stay. */
void life_set_drop(struct sandbox *sb);

/* Work on the pool for the step under way. The set is the job's meanwhile. */
struct life_job {
	struct core *core;
	struct sandbox *sandbox; /* NULL: it ended meanwhile */
	struct set set;
	struct set_host host;
	bool making;           /* the files go when nobody wants them any more */
	/* of the set, of the set it is made from, of the sandbox's disk */
	char path[SET_PATH_MAX], from[SET_PATH_MAX], disk[SET_PATH_MAX];
	char pin[STORE_ID_MAX], snapshots[BASE_PATH_MAX];
	json_t *extra;
	int err;
	struct fault fault;
	void (*work)(struct life_job *job);
	void (*done)(struct sandbox *sb, struct life_job *job);
};

/* NULL: out of memory; the operation has failed then. */
struct life_job *life_job_new(struct sandbox *sb);
/* done() comes with the set back in life->set, unless the sandbox ended. */
void life_job_run(struct life_job *job, void (*work)(struct life_job *job),
		  void (*done)(struct sandbox *sb, struct life_job *job));

/* pause.c: the way down, for pause, fork and snapshot. */
void pause_begin(struct sandbox *sb);
/* resume.c: the way up; and of a machine that was halted or found halted. */
void resume_begin(struct sandbox *sb);
void resume_continue(struct sandbox *sb);
/* copy.c: what fork and snapshot make of the saved set, and from a paused sandbox. */
void copy_begin(struct sandbox *sb);
void copy_saved(struct sandbox *sb);
void copy_cancel(struct sandbox *sb);
void fork_launch(struct sandbox *sb);
void fork_cancel(struct sandbox *sb);
/* What goes on beside the machine is over. */
void copy_made(struct sandbox *sb, int err, const struct fault *f);

void pause_vm_done(struct sandbox *sb, int err, const char *message);
bool pause_vm_ended(struct sandbox *sb);

/* --- what the machine tells; true: it was for an operation --- */
void life_vm_done(struct sandbox *sb, int err, const char *message);
bool life_vm_started(struct sandbox *sb);
bool life_vm_ended(struct sandbox *sb, const char *reason, const char *message);
bool life_link_up(struct sandbox *sb);
bool life_link_broken(struct sandbox *sb, const char *reason, const char *message);
void life_identified(struct sandbox *sb, int err, const struct fault *f);

/* inside.c: what the host knows of the kernels and processes in a machine. */
json_t *inside_json(const struct sandbox *sb);
/* Makes the kernels of a copy. False: out of memory. */
bool inside_restore(struct sandbox *sb, json_t *inside);
/* Time limits stand still while the machine does; the link is closed. */
void inside_hold(struct sandbox *sb);
void inside_release(struct sandbox *sb, int64_t stood_ms);
/* Kernels and processes on the link again. */
void inside_link_up(struct sandbox *sb);

#endif
