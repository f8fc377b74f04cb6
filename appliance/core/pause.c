/* The way down: files, freeze, halt, save; for a pause on to seal, commit, stop. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engines.h"
#include "instant.h"
#include "life.h"
#include "template.h"
#include "times.h"

static bool copies(const struct sandbox *sb)
{
	return sb->life->op->verb != LIFE_PAUSE;
}

/* Else a paused one keeps its machine, which stands still. */
static bool saves(const struct sandbox *sb)
{
	return engine_ops_of(sb->engine)->saves;
}

static void step_instant(const struct sandbox *sb, enum instant pause, enum instant copy)
{
	instant(copies(sb) ? copy : pause);
}

/* --- what cannot be saved --- */

static int pause_check(const struct sandbox *sb, struct fault *f)
{
	const struct sandbox *other;
	unsigned paused = 0;

	if (!saves(sb) && copies(sb))
		return fault_set(f, ENOTSUP, 409, "not_supported",
				 "The engine %s keeps no copy of a sandbox's memory: it can be paused, but neither "
				 "forked nor kept as a snapshot.",
				 engine_ops_of(sb->engine)->name);
	if (saves(sb) && !sb->base.key[0])
		return fault_set(f, EBUSY, 409, "not_supported",
				 "This sandbox was booted, not cloned from a warm snapshot: it cannot be paused, "
				 "forked or kept as a snapshot.");
	if (copies(sb))
		return 0;
	for (other = sb->core->sandboxes; other; other = other->next)
		paused += other->state == SANDBOX_PAUSED && strcmp(other->owner, sb->owner) == 0;
	if (paused < LIFE_PAUSED_MAX)
		return 0;
	fault_set(f, EDQUOT, 429, "quota", "You have %u paused sandboxes already; end some first.", paused);
	f->retry_after_s = 60;
	return -EDQUOT;
}

/* --- stop --- */

static void pause_over(struct sandbox *sb)
{
	sb->life->making = false;
	tally_add(&sb->core->lives, "paused");
	life_end(sb, 0);
}

/* The machine is gone; what is paused now uses no memory. */
static void pause_stopped(struct sandbox *sb)
{
	instant(INSTANT_PAUSE_STOPPED);
	sandbox_machine_release(sb);
	core_log("sandbox %s is paused: %llu KiB of memory", sb->id,
		 (unsigned long long)sb->life->set.data_bytes >> 10);
	pause_over(sb);
}

static void pause_stop(struct sandbox *sb)
{
	life_step(sb, LIFE_STOP);
	if (sb->vm_ended)
		pause_stopped(sb);
	else
		engine_ops_of(sb->engine)->stop(sb->vm, REASON_ASKED);
}

/* --- commit --- */

static void pause_committed(struct sandbox *sb, int err, const char *message)
{
	struct fault f;

	if (sb->life->step != LIFE_COMMIT)
		return;
	if (err == 0) {
		instant(INSTANT_PAUSE_COMMITTED);
		if (saves(sb))
			pause_stop(sb);
		else
			pause_over(sb);
		return;
	}
	fault_set(&f, -err, err == -ENOSPC ? 507 : 500, err == -ENOSPC ? "disk_full" : "store",
		  "That it is paused could not be stored, so it goes on running: %.150s", message);
	if (sb->vm_ended) {
		sandbox_end(sb, "store-failed", message);
		return;
	}
	sandbox_enter(sb, SANDBOX_RUNNING);
	sb->paused_ms = 0;
	sb->deadline_ms = sb->running_deadline_ms;
	life_fail(sb, err, &f);
}

static void pause_commit(struct sandbox *sb)
{
	int64_t keep_ms = (int64_t)sb->core->settings->paused_keep_s * 1000;

	life_step(sb, LIFE_COMMIT);
	usage_read(sb);
	sandbox_enter(sb, SANDBOX_PAUSED);
	sb->running_deadline_ms = sb->deadline_ms;
	sb->paused_ms = sb->halted_ms;
	sandbox_set_deadline(sb, unix_ms() + keep_ms);
	sandbox_commit(sb, "sandbox_pause", pause_committed);
}

/* --- seal --- */

static void seal_work(struct life_job *job)
{
	job->err = base_pin(job->snapshots, &job->set.base, job->pin, &job->fault);
	if (!job->err)
		job->err = set_seal(&job->set, job->path, job->disk, NULL, &job->fault);
}

static void seal_done(struct sandbox *sb, struct life_job *job)
{
	if (job->err < 0) {
		life_fail(sb, job->err, &job->fault);
		return;
	}
	instant(INSTANT_PAUSE_SEALED);
	pause_commit(sb);
}

static void pause_seal(struct sandbox *sb)
{
	struct life_job *job;

	life_step(sb, LIFE_SEAL);
	job = life_job_new(sb);
	if (!job)
		return;
	life_set_path(sb, job->path);
	snprintf(job->disk, sizeof(job->disk), "%s", sb->scratch_path);
	life_job_run(job, seal_work, seal_done);
}

/* --- halt, save --- */

static int engine_refused(struct fault *f, int err, const char *what)
{
	return fault_set(f, -err, 500, "engine", "The engine could not %s the sandbox: %s.", what, strerror(-err));
}

static void pause_save(struct sandbox *sb)
{
	struct life *l = sb->life;
	struct fault f;
	int err;

	/* Rule of the engine: from here to done() nobody touches the link. */
	inside_hold(sb);
	json_decref(l->set.inside);
	l->set.inside = inside_json(sb);
	step_instant(sb, INSTANT_PAUSE_HALTED, INSTANT_COPY_HALTED);
	life_step(sb, LIFE_SAVE);
	err = engine_ops_of(sb->engine)->save(sb->vm, l->set.state_fd, l->set.pages_fd);
	if (err < 0)
		life_fail(sb, engine_refused(&f, err, "save"), &f);
}

/* Nothing of it is written: it stands still where it is. */
static void pause_keep(struct sandbox *sb)
{
	inside_hold(sb);
	instant(INSTANT_PAUSE_HALTED);
	pause_commit(sb);
}

static void save_failed(struct sandbox *sb, int err, const char *message)
{
	struct fault f;

	if (err == -ENOTCONN)
		fault_restarting(&f, message);
	else if (err == -ENOSPC)
		fault_set(&f, ENOSPC, 507, "disk_full",
			  "The host's disk is full: the sandbox goes on running as it was. %.150s", message);
	else
		fault_set(&f, -err, 500, "engine", "The sandbox could not be saved: %.200s", message);
	life_fail(sb, err, &f);
}

void pause_vm_done(struct sandbox *sb, int err, const char *message)
{
	struct life *l = sb->life;

	if (err < 0) {
		/* It may stand still all the same. */
		l->halted = true;
		save_failed(sb, err, message ? message : "");
	} else if (l->step == LIFE_HALT) {
		l->halted = true;
		sb->halted_ms = unix_ms();
		if (saves(sb))
			pause_save(sb);
		else
			pause_keep(sb);
	} else {
		step_instant(sb, INSTANT_PAUSE_SAVED, INSTANT_COPY_SAVED);
		if (copies(sb))
			copy_saved(sb);
		else
			pause_seal(sb);
	}
}

bool pause_vm_ended(struct sandbox *sb)
{
	enum life_step step = sb->life->step;

	/* What was saved is complete without the machine. */
	if (copies(sb) || !saves(sb) || (step != LIFE_SEAL && step != LIFE_COMMIT && step != LIFE_STOP))
		return false;
	if (step == LIFE_STOP)
		pause_stopped(sb);
	return true;
}

/* --- freeze --- */

static void pause_halt(struct sandbox *sb)
{
	struct fault f;
	int err;

	life_step(sb, LIFE_HALT);
	err = engine_ops_of(sb->engine)->pause(sb->vm);
	if (err < 0)
		life_fail(sb, engine_refused(&f, err, "halt"), &f);
}

static void on_frozen(int err, int status, json_t *reply, void *arg)
{
	struct sandbox *sb = arg;
	struct fault f;

	if (err == -ECANCELED || sb->life->step != LIFE_FREEZE)
		return;
	if (err < 0 || status != 200) {
		err = guest_fault(&f, err, status, reply);
		life_fail(sb, err, &f);
		return;
	}
	step_instant(sb, INSTANT_PAUSE_FROZEN, INSTANT_COPY_FROZEN);
	pause_halt(sb);
}

static void pause_freeze(struct sandbox *sb)
{
	json_t *empty = json_object();
	struct fault f;
	int err;

	life_step(sb, LIFE_FREEZE);
	/* The step's own limit comes first. */
	err = guest_call(sb->guest, "POST", "/freeze", empty, 2 * 60 * 1000, on_frozen, sb);
	json_decref(empty);
	if (err < 0) {
		err = guest_fault(&f, -ECONNRESET, 0, NULL);
		life_fail(sb, err, &f);
	}
}

/* --- files --- */

static void files_work(struct life_job *job)
{
	struct set facts = job->set, made;

	job->err = set_begin(job->path, &made, &job->fault);
	if (job->err < 0)
		return;
	made.cls = facts.cls;
	made.base = facts.base;
	memcpy(made.image, facts.image, sizeof(made.image));
	memcpy(made.fingerprint, facts.fingerprint, sizeof(made.fingerprint));
	job->set = made;
}

static void files_done(struct sandbox *sb, struct life_job *job)
{
	if (job->err < 0) {
		life_fail(sb, job->err, &job->fault);
		return;
	}
	step_instant(sb, INSTANT_PAUSE_FILES, INSTANT_COPY_FILES);
	pause_freeze(sb);
}

void pause_begin(struct sandbox *sb)
{
	struct life *l = sb->life;
	struct life_job *job;
	struct fault f;
	int err = pause_check(sb, &f);

	if (err < 0) {
		life_fail(sb, err, &f);
		return;
	}
	/* Its keeper must not end it in the middle. */
	engine_ops_of(sb->engine)
		->set_deadline(sb->vm, boottime_of_unix_ms(unix_ms() + LIFE_KEEPER_MS));
	if (!saves(sb)) {
		pause_halt(sb);
		return;
	}
	l->making = true;
	life_step(sb, LIFE_FILES);
	l->set.cls = sb->cls;
	l->set.base = sb->base;
	snprintf(l->set.image, sizeof(l->set.image), "%s", sb->image);
	snprintf(l->set.fingerprint, sizeof(l->set.fingerprint), "%s", engines_fingerprint(sb->core, sb->engine));
	job = life_job_new(sb);
	if (!job)
		return;
	if (copies(sb))
		life_snapshot_path(sb->core, l->made_id, job->path);
	else
		life_set_path(sb, job->path);
	life_job_run(job, files_work, files_done);
}
