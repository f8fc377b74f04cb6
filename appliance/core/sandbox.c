#include "sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "identity.h"
#include "instant.h"
#include "kernel.h"
#include "life.h"
#include "process.h"
#include "source.h"
#include "starts.h"
#include "template.h"
#include "times.h"
#include "transfer.h"

struct sandbox *sandbox_find(struct core *c, const char *owner, const char *id)
{
	struct sandbox *sb;

	for (sb = c->sandboxes; sb; sb = sb->next) {
		if (strcmp(sb->id, id) == 0 && (!owner || strcmp(sb->owner, owner) == 0))
			return sb;
	}
	return NULL;
}

struct sandbox *sandbox_usable(struct core *c, const char *owner, const char *id, struct fault *f)
{
	struct sandbox *sb = sandbox_find(c, owner, id);

	if (!sb) {
		fault_set(f, ENOENT, 404, "not_found", "There is no such sandbox.");
		return NULL;
	}
	/* core_settle() waits for what is under way, and wakes. */
	if (sb->state != SANDBOX_RUNNING || life_busy(sb)) {
		fault_set(f, EBUSY, 409, "wrong_state",
			  sb->state == SANDBOX_PAUSED ? "The sandbox is paused; resume it first."
						      : "The sandbox is %s and cannot take this now.",
			  sandbox_state_name(sb->state));
		f->busy = true;
		return NULL;
	}
	return sb;
}

static void on_deadline(void *arg)
{
	struct sandbox *sb = arg;

	/* An operation under way looks again at its end. */
	if (life_busy(sb))
		return;
	if (sb->state == SANDBOX_PAUSED)
		sandbox_end(sb, REASON_EXPIRED, "It was paused for longer than paused sandboxes are kept.");
	else if (sb->state == SANDBOX_RUNNING && sb->pause_on_timeout)
		life_deadline(sb);
	else
		sandbox_end(sb, REASON_DEADLINE, "");
}

static void on_state_limit(void *arg)
{
	struct sandbox *sb = arg;

	if (sb->state == SANDBOX_ENDING) {
		core_log("sandbox %s does not end; the engine is asked again", sb->id);
		hub_timer_set(sb->state_timer, sandbox_state_limit_ms(sb->state, false));
		if (sb->vm && !sb->vm_ended)
			engine_ops_of(sb->engine)->stop(sb->vm, sb->reason);
		return;
	}
	if (sandbox_machine_retry(sb)) {
		hub_timer_set(sb->state_timer, sandbox_state_limit_ms(sb->state, true));
		return;
	}
	sandbox_end(sb, sb->state == SANDBOX_CREATING ? "start-failed" : "crashed(agent)",
		    "The sandbox did not come up in time.");
}

struct sandbox *sandbox_new(struct core *c, struct engine *engine, const char *id, const char *owner, json_t *env,
			    json_t *metadata)
{
	struct sandbox *sb = calloc(1, sizeof(*sb));

	if (!sb)
		return NULL;
	*sb = (struct sandbox){ .core = c, .engine = engine, .vm_ended = true };
	sb->deadline_timer = hub_timer_new(c->hub, on_deadline, sb);
	sb->state_timer = hub_timer_new(c->hub, on_state_limit, sb);
	sb->life = life_new(sb);
	if (usage_begin(sb) < 0 || !sb->deadline_timer || !sb->state_timer || !sb->life) {
		life_free(sb);
		usage_forget(sb);
		hub_timer_free(sb->deadline_timer);
		hub_timer_free(sb->state_timer);
		free(sb);
		return NULL;
	}
	snprintf(sb->id, sizeof(sb->id), "%s", id);
	snprintf(sb->owner, sizeof(sb->owner), "%s", owner);
	snprintf(sb->scratch_path, sizeof(sb->scratch_path), "%s/scratch/%s.ext4", c->settings->state, id);
	sb->env = json_is_object(env) ? json_incref(env) : json_object();
	sb->metadata = json_is_object(metadata) ? json_incref(metadata) : json_object();
	sb->next = c->sandboxes;
	c->sandboxes = sb;
	return sb;
}

void sandbox_enter(struct sandbox *sb, enum sandbox_state state)
{
	unsigned limit = sandbox_state_limit_ms(state, !sb->template && !sb->source);

	sb->state = state;
	if (state != SANDBOX_CREATING)
		starts_leave(sb);
	if (state == SANDBOX_RUNNING)
		usage_watch(sb);
	if (limit)
		hub_timer_set(sb->state_timer, limit);
	else
		hub_timer_stop(sb->state_timer);
}

uint64_t sandbox_keeper_deadline(const struct sandbox *sb)
{
	return boottime_of_unix_ms(sb->deadline_ms + (sb->pause_on_timeout ? LIFE_GRACE_MS : 0));
}

void sandbox_set_deadline(struct sandbox *sb, int64_t deadline_ms)
{
	const struct engine_ops *ops = engine_ops_of(sb->engine);
	int64_t left = deadline_ms - unix_ms();

	sb->deadline_ms = deadline_ms;
	hub_timer_set(sb->deadline_timer, left > 0 ? (uint64_t)left : 1);
	/* The machine of one that is being paused has its own; where it stays, it has this one again. */
	if (sb->vm && !sb->vm_ended && (sb->state != SANDBOX_PAUSED || !ops->saves))
		ops->set_deadline(sb->vm, sandbox_keeper_deadline(sb));
}

void sandbox_keep(struct sandbox *sb, unsigned timeout_s)
{
	sb->timeout_s = timeout_s;
	sandbox_set_deadline(sb, unix_ms() + (int64_t)timeout_s * 1000);
}

/* A row is written only where that moves the deadline by as much. */
static int64_t sandbox_prolong_ms(int64_t idle_s)
{
	return idle_s * 1000 / 4 < SANDBOX_PROLONG_MS ? idle_s * 1000 / 4 : SANDBOX_PROLONG_MS;
}

void sandbox_prolong(struct sandbox *sb)
{
	json_t *idle = json_object_get(json_object_get(sb->metadata, "jupyter"), "idle_s");
	int64_t idle_s = json_is_integer(idle) ? json_integer_value(idle) : 0;

	/* A client of the REST face may have written that, too. */
	if (idle_s < 1 || idle_s > SANDBOX_IDLE_MAX_S || sb->state != SANDBOX_RUNNING)
		return;
	if (sb->deadline_ms > unix_ms() + idle_s * 1000 - sandbox_prolong_ms(idle_s))
		return;
	sandbox_keep(sb, (unsigned)idle_s);
	sandbox_store(sb, NULL, NULL);
}

/* --- running --- */

struct sandbox_commit {
	struct hub_item item;
	struct core *core;
	char id[STORE_ID_MAX];
	int err;
	char message[256];
	struct sandbox_waiter *waiters; /* told at the commit, whatever became of the sandbox */
	struct sandbox *ended;          /* what is left of it */
};

static void running_committed(void *arg)
{
	struct sandbox_commit *commit = arg;
	struct sandbox_waiter *w = commit->waiters;

	if (commit->err < 0) {
		struct sandbox *sb = sandbox_find(commit->core, NULL, commit->id);

		fault_set(&w->call.fault, -commit->err, commit->err == -ENOSPC ? 507 : 500,
			  commit->err == -ENOSPC ? "disk_full" : "store",
			  "The sandbox could not be stored: %s", commit->message);
		if (sb)
			sandbox_end(sb, commit->err == -ENOSPC ? REASON_DISK_FULL : REASON_STORE_FAILED,
				    commit->message);
	} else {
		instant(w->done ? INSTANT_FORK_COMMITTED : INSTANT_CREATE_COMMITTED);
	}
	sandbox_waiter_end(w, commit->err);
	free(commit);
}

static void on_running_commit(int err, const char *message, void *arg)
{
	struct sandbox_commit *commit = arg;

	commit->err = err;
	snprintf(commit->message, sizeof(commit->message), "%s", message ? message : "");
	hub_post(commit->core->hub, &commit->item, running_committed, commit);
}

/* From here on it costs. */
static void running_store(struct sandbox *sb, struct sandbox_commit *commit)
{
	struct store_txn *t = store_txn_new(sb->core->store);

	sandbox_row_add(sb, t);
	usage_account(sb, t);
	store_txn_submit(t, on_running_commit, commit);
}

void sandbox_run(struct sandbox *sb, json_t *kernels)
{
	struct sandbox_commit *commit = calloc(1, sizeof(*commit));
	struct kernel *k;

	if (!commit || !sandbox_first_kernels(sb, kernels)) {
		free(commit);
		sandbox_end(sb, "start-failed", "Out of memory on the host.");
		return;
	}
	sandbox_enter(sb, SANDBOX_RUNNING);
	tally_add(&sb->core->starts, sb->started ? sb->started : "other");
	commit->core = sb->core;
	commit->waiters = sb->create;
	memcpy(commit->id, sb->id, sizeof(commit->id));
	sb->create->result = sandbox_json(sb);
	sb->create = NULL;
	source_unref(sb->source);
	sb->source = NULL;
	running_store(sb, commit);
	inside_link_up(sb);
	/* Their rows follow the sandbox's. */
	for (k = sb->kernels; k; k = k->next)
		kernel_txn(k);
}

/* --- the end --- */

static void teardown(void *arg)
{
	struct sandbox *sb = arg;
	struct kernel *k;

	instant(INSTANT_END_BEGUN);
	for (k = sb->kernels; k; k = k->next)
		kernel_sandbox_ended(k, sb->reason);
	processes_sandbox_ended(sb);
	transfers_sandbox_ended(sb);
	if (sb->vm && !sb->vm_ended)
		engine_ops_of(sb->engine)->stop(sb->vm, sb->reason);
	else
		sandbox_vm_gone(sb);
}

static void ending_committed(struct sandbox *sb, int err, const char *message)
{
	(void)message;
	/* Its end is stored as soon as it can be, and until then told all the same. */
	if (err < 0)
		store_known_set(sb->core->store, sb->id, sandbox_end_fields(sb));
}

void sandbox_end(struct sandbox *sb, const char *reason, const char *message)
{
	struct store_txn *t;

	if (!sandbox_state_may(sb->state, SANDBOX_ENDING))
		return;
	snprintf(sb->reason, sizeof(sb->reason), "%s", reason);
	snprintf(sb->message, sizeof(sb->message), "%s", message ? message : "");
	hub_timer_stop(sb->deadline_timer);
	sandbox_enter(sb, SANDBOX_ENDING);
	life_cancel(sb);
	usage_read(sb);
	t = store_txn_new(sb->core->store);
	sandbox_row_add(sb, t);
	sandbox_submit(sb, t, ending_committed);
	/* Later: the caller may stand in a callback of what is taken apart. */
	hub_post(sb->core->hub, &sb->teardown, teardown, sb);
}

static void create_failed(const struct sandbox *sb, struct sandbox_waiter *w)
{
	struct fault *f = &w->call.fault;

	if (strcmp(sb->reason, REASON_ASKED) == 0)
		fault_set(f, ECANCELED, 409, "wrong_state", "The sandbox was deleted while it started.");
	else if (strcmp(sb->reason, REASON_HOST_RESTART) == 0)
		fault_restarting(f, sb->message);
	else if (strcmp(sb->reason, REASON_DISK_FULL) == 0)
		fault_set(f, ENOSPC, 507, "disk_full", "%s", sb->message);
	else
		fault_set(f, EIO, 500, "start_failed", "The sandbox did not start (%s). %s", sb->reason,
			  sb->message);
}

static void ended_committed(void *arg)
{
	struct sandbox_commit *commit = arg;
	struct sandbox_waiter *w;

	if (commit->err < 0) {
		unstored_sandbox(commit->ended);
	} else {
		store_known_set(commit->core->store, commit->id, NULL);
		sandbox_record_free(commit->ended);
	}
	instant(INSTANT_END_COMMITTED);
	while ((w = commit->waiters) != NULL) {
		commit->waiters = w->next;
		sandbox_waiter_end(w, w->call.fault.code[0] ? -EIO : 0);
	}
	core_check_stopped(commit->core);
	free(commit);
}

static void on_ended_commit(int err, const char *message, void *arg)
{
	struct sandbox_commit *commit = arg;

	commit->err = err;
	snprintf(commit->message, sizeof(commit->message), "%s", message ? message : "");
	hub_post(commit->core->hub, &commit->item, ended_committed, commit);
}

static void sandbox_unlist(struct sandbox *sb)
{
	struct sandbox **at = &sb->core->sandboxes;

	while (*at != sb)
		at = &(*at)->next;
	*at = sb->next;
}

/* Everything but the record. */
static void sandbox_strip(struct sandbox *sb)
{
	struct kernel *k;

	while ((k = sb->kernels) != NULL) {
		sb->kernels = k->next;
		k->sandbox = NULL;
		kernel_unref(k);
	}
	life_free(sb);
	sandbox_machine_free(sb);
	source_unref(sb->source);
	usage_forget(sb);
	hub_timer_free(sb->deadline_timer);
	hub_timer_free(sb->state_timer);
}

void sandbox_record_free(struct sandbox *sb)
{
	json_decref(sb->env);
	json_decref(sb->metadata);
	free(sb);
}

static void sandbox_finish(void *arg)
{
	struct sandbox *sb = arg;
	struct sandbox_commit *commit = calloc(1, sizeof(*commit));
	struct store_txn *t = store_txn_new(sb->core->store);

	/* Nothing can be told without it, and nothing can go on. */
	if (!commit)
		abort();
	instant(INSTANT_END_GONE);
	sandbox_enter(sb, SANDBOX_ENDED);
	sb->ended_ms = unix_ms();
	tally_add(&sb->core->ends, sb->reason);
	commit->core = sb->core;
	memcpy(commit->id, sb->id, sizeof(commit->id));
	commit->waiters = sb->gone;
	if (sb->create) {
		create_failed(sb, sb->create);
		sb->create->next = commit->waiters;
		commit->waiters = sb->create;
	}
	commit->ended = sb;
	sandbox_end_add(sb, t);
	core_log("sandbox %s ended: %s%s%s", sb->id, sb->reason, sb->message[0] ? ": " : "", sb->message);
	sandbox_unlist(sb);
	sandbox_strip(sb);
	store_txn_submit(t, on_ended_commit, commit);
}

/* The clone did not come up: its snapshot is suspect, the sandbox is booted. */
static void sandbox_boot_instead(void *arg)
{
	struct sandbox *sb = arg;
	struct template *t = sb->template;

	/* Deleted in between: teardown goes on from here. */
	if (sb->state != SANDBOX_CREATING)
		return;
	identity_free(sb->identity);
	sb->identity = NULL;
	guest_free(sb->guest);
	sb->guest = NULL;
	engine_ops_of(sb->engine)->free(sb->vm);
	sb->vm = NULL;
	sb->gave_up_clone = false;
	/* A machine of the pool had come up: its snapshot is sound, a clone of it takes its place. */
	if (strcmp(sb->started, "pool") != 0 || t->fresh || !template_ready(t)) {
		sb->template = NULL;
		template_clone_result(t, false);
		starts_leave(sb);
	}
	core_log("sandbox %s: its clone did not come up (%s%s%s), it is %s instead", sb->id, sb->gone_reason,
		 sb->gone_message[0] ? ": " : "", sb->gone_message, sb->template ? "cloned again" : "booted");
	sandbox_enter(sb, SANDBOX_CREATING);
	sandbox_machine_start(sb);
}

void sandbox_vm_gone(struct sandbox *sb)
{
	/* Not from inside a callback of the engine or the link. The item is free: teardown has run, or waits
	 * for nothing. */
	if (sb->state == SANDBOX_CREATING && sb->gave_up_clone)
		hub_post(sb->core->hub, &sb->finish, sandbox_boot_instead, sb);
	else if (sb->state == SANDBOX_ENDING)
		hub_post(sb->core->hub, &sb->finish, sandbox_finish, sb);
}

void sandboxes_release(struct core *c)
{
	struct sandbox *sb;
	struct kernel *k;

	while ((sb = c->sandboxes) != NULL) {
		c->sandboxes = sb->next;
		for (k = sb->kernels; k; k = k->next)
			kernel_release(k);
		processes_sandbox_ended(sb);
		transfers_sandbox_ended(sb);
		sb->scratch_path[0] = '\0';
		/* The engine frees what it knows of the machine; the machine itself goes on. */
		sb->vm = NULL;
		sandbox_strip(sb);
		sandbox_record_free(sb);
	}
}
