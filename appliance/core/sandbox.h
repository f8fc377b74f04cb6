/* One sandbox: its state machine, its deadline, and the one owner of everything
 * that belongs to it: machine, scratch disk, link, kernels, processes, transfers.
 *
 * Hub thread only. creating -> running -> ending -> ended(reason); every end goes
 * through sandbox_end(), from any state, and frees in one place (sandbox_finish).
 */
#ifndef CARREL_SANDBOX_H
#define CARREL_SANDBOX_H

#include "core_inner.h"
#include "guest.h"
#include "state.h"

struct kernel;
struct process;
struct transfer;

/* Waits for a sandbox to run, or to be gone. */
struct sandbox_waiter {
	struct hub_call call;
	struct core *core;
	const char *owner, *id;
	const struct sandbox_spec *spec;
	unsigned quota; /* sandboxes its owner may have */
	unsigned timeout_s;
	json_t *result;
	struct sandbox_waiter *next;
};

struct sandbox {
	struct core *core;
	struct sandbox *next;
	char id[STORE_ID_MAX], owner[STORE_ID_MAX];
	enum sandbox_state state;
	char template_name[64];
	const char *started; /* "clone", "boot", "pool" */
	unsigned memory_mb, disk_mb;
	double cpus;
	json_t *env, *metadata;
	struct vm_class cls;
	int64_t created_ms, deadline_ms, ended_ms;
	char reason[SPAWN_REASON_MAX], message[SPAWN_MESSAGE_MAX];

	struct template *template;               /* what it is cloned from; NULL: booted */
	uint64_t channel_received, channel_sent; /* where its snapshot's default kernel stands */
	struct vm *vm;
	bool vm_ended;
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
	struct hub_item teardown, finish;
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
/* Writes its row into a transaction of its own. done may be NULL. */
void sandbox_store(struct sandbox *sb, void (*done)(int err, const char *message, void *arg), void *arg);
/* As the REST face shows it; a new reference. */
json_t *sandbox_json(const struct sandbox *sb);
/* A record without machine, in the core's table; NULL: out of memory. Takes references to env and metadata.
 */
struct sandbox *sandbox_new(struct core *c, const char *id, const char *owner, json_t *env, json_t *metadata);
void sandbox_enter(struct sandbox *sb, enum sandbox_state state);
/* At the core's stop, without the hub's thread: lets go of every sandbox; their machines go on. */
void sandboxes_release(struct core *c);
/* The running state begins: deadline, row, kernels; the waiter hears of it after the commit. */
void sandbox_run(struct sandbox *sb, json_t *kernels);
/* What ends: the machine is gone, or there never was one. */
void sandbox_vm_gone(struct sandbox *sb);

/* sandbox_machine.c: scratch disk, machine, link and identity. */
void sandbox_machine_start(struct sandbox *sb);
/* Instead: a clone that came up before, with its link; received, sent: where its kernel's channel stands. */
void sandbox_machine_take(struct sandbox *sb, struct vm *vm, struct guest *g, uint64_t received, uint64_t sent);
/* Takes over a machine that outlived a restart of carreld. 0 or negative errno: there is none. */
int sandbox_machine_adopt(struct sandbox *sb);
/* A clone that does not come up is booted instead. False: this one cannot. */
bool sandbox_machine_retry(struct sandbox *sb);
void sandbox_machine_free(struct sandbox *sb);

/* sandbox_row.c */
void sandbox_row_add(const struct sandbox *sb, struct store_txn *t);

#endif
