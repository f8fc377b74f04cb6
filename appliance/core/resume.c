/* The way up: open, start, link, identity, commit; and of a machine that was only
 * halted: continue, link, identity. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "admission.h"
#include "instant.h"
#include "life.h"
#include "pool.h"
#include "template.h"
#include "times.h"

/* --- it runs --- */

static void resume_clean(struct sandbox *sb)
{
	char path[SET_PATH_MAX], snapshots[BASE_PATH_MAX];

	life_set_path(sb, path);
	life_snapshots_dir(sb->core, snapshots);
	set_remove(path, snapshots, sb->id);
}

static void resume_committed(struct sandbox *sb, int err, const char *message)
{
	struct fault f;

	if (sb->life->step != LIFE_COMMIT)
		return;
	if (err < 0) {
		/* The row still says paused: a restart finds the machine and goes on with that. */
		fault_set(&f, -err, err == -ENOSPC ? 507 : 500, err == -ENOSPC ? "disk_full" : "store",
			  "The sandbox runs, but that could not be stored: %.200s", message);
		sb->life->fault = f;
		life_end(sb, err);
		return;
	}
	instant(INSTANT_RESUME_COMMITTED);
	resume_clean(sb);
	instant(INSTANT_RESUME_CLEANED);
	life_end(sb, 0);
}

/* A paused one runs again. */
static void resume_run(struct sandbox *sb)
{
	struct life_op *op = sb->life->op;

	if (op && op->timeout_s)
		sb->timeout_s = op->timeout_s;
	inside_release(sb, unix_ms() - sb->paused_ms);
	sb->paused_ms = 0;
	sandbox_enter(sb, SANDBOX_RUNNING);
	sandbox_set_deadline(sb, unix_ms() + (int64_t)sb->timeout_s * 1000);
	tally_add(&sb->core->lives, "resumed");
	life_step(sb, LIFE_COMMIT);
	sandbox_commit(sb, "sandbox_resume", resume_committed);
	inside_link_up(sb);
}

/* One that was halted for an operation, or found so after a restart, is as it was. */
static void continue_done(struct sandbox *sb)
{
	struct life *l = sb->life;

	l->halted = false;
	inside_release(sb, unix_ms() - sb->halted_ms);
	/* Found after a restart, perhaps in the middle of a pause or resume. */
	if (!l->op)
		resume_clean(sb);
	inside_link_up(sb);
	if (!l->op || l->err) {
		life_end(sb, l->err);
		return;
	}
	/* A fork or snapshot whose own part may still be under way. */
	l->back = true;
	if (l->made)
		life_end(sb, 0);
	else
		life_step(sb, LIFE_COPIES);
}

void life_identified(struct sandbox *sb, int err, const struct fault *f)
{
	struct life *l = sb->life;

	/* The link was cut under the answer, and comes back. */
	if (l->step != LIFE_IDENTITY || err == -ECONNRESET)
		return;
	/* The one that carreld asked for before it was killed may still be under way. */
	if (err < 0 && ++l->tries < LIFE_IDENTITY_TRIES) {
		hub_timer_set(l->again, LIFE_IDENTITY_AGAIN_MS);
		return;
	}
	if (err < 0) {
		life_link_broken(sb, "crashed(agent)", f->message);
		return;
	}
	l->tries = 0;
	if (sb->state == SANDBOX_PAUSED) {
		instant(INSTANT_RESUME_IDENTIFIED);
		resume_run(sb);
	} else {
		continue_done(sb);
	}
}

/* --- link --- */

bool life_link_up(struct sandbox *sb)
{
	struct life *l = sb->life;

	if (l->step != LIFE_LINK && l->step != LIFE_IDENTITY)
		return false;
	if (sb->state == SANDBOX_PAUSED)
		instant(INSTANT_RESUME_LINKED);
	life_step(sb, LIFE_IDENTITY);
	sandbox_machine_identify(sb);
	return true;
}

/* The machine is of no use; what is paused stays paused if its disk is as it was. */
bool life_link_broken(struct sandbox *sb, const char *reason, const char *message)
{
	struct life *l = sb->life;

	if (sb->state != SANDBOX_PAUSED || l->step < LIFE_START || l->step > LIFE_IDENTITY) {
		sandbox_end(sb, reason, message);
		return true;
	}
	fault_set(&l->fault, EIO, 500, "resume_failed", "The sandbox could not be resumed (%s). %.200s", reason,
		  message);
	life_step(sb, LIFE_GIVE_UP);
	engine_ops_of(sb->engine)->stop(sb->vm, reason);
	return true;
}

static void guest_begin(struct sandbox *sb, const char *agent_path)
{
	life_step(sb, LIFE_LINK);
	if (guest_is_up(sb->guest))
		life_link_up(sb);
	else if (sb->guest)
		guest_hold(sb->guest, false);
	else if (sandbox_machine_link(sb, agent_path) < 0)
		life_link_broken(sb, "start-failed", "Out of memory on the host.");
}

/* --- continue --- */

void resume_continue(struct sandbox *sb)
{
	int err;

	life_step(sb, LIFE_CONTINUE);
	err = engine_ops_of(sb->engine)->resume(sb->vm);
	/* -ESRCH: it is ending, which is told soon. */
	if (err < 0 && err != -ESRCH)
		sandbox_end(sb, "crashed(engine)", "The engine did not continue the machine.");
}

static void continued(struct sandbox *sb, int err, const char *message)
{
	struct life *l = sb->life;

	if (err < 0) {
		sandbox_end(sb, "crashed(engine)", message ? message : "The machine could not be continued.");
		return;
	}
	sb->adopted = false;
	if (l->op && l->op->verb != LIFE_PAUSE)
		instant(INSTANT_COPY_CONTINUED);
	guest_begin(sb, sb->agent_path);
}

/* --- start --- */

/* A machine beside the files of a paused one: it was not stopped yet, or had just been started. While its disk is
 * as it was it is of no use, and goes; else it has run, and is the sandbox. */
static void found_begin(struct sandbox *sb)
{
	life_step(sb, LIFE_FOUND);
	if (engine_ops_of(sb->engine)->pause(sb->vm) < 0)
		resume_continue(sb);
}

static void found_halted(struct sandbox *sb)
{
	char path[SET_PATH_MAX];

	if (!engine_ops_of(sb->engine)->saves) {
		/* The machine is all there is of it. */
		sb->adopted = false;
		life_end(sb, 0);
		return;
	}
	life_set_path(sb, path);
	if (!set_intact(path, sb->scratch_path)) {
		resume_continue(sb);
		return;
	}
	life_step(sb, LIFE_GIVE_UP);
	engine_ops_of(sb->engine)->stop(sb->vm, REASON_HOST_RESTART);
}

void life_vm_done(struct sandbox *sb, int err, const char *message)
{
	enum life_step step = sb->life->step;

	if (step == LIFE_HALT || step == LIFE_SAVE)
		pause_vm_done(sb, err, message);
	else if (step == LIFE_FOUND)
		found_halted(sb);
	else if (step == LIFE_CONTINUE)
		continued(sb, err, message);
	else if (err < 0 && err != -ECANCELED)
		core_log("sandbox %s: %s", sb->id, message ? message : "the engine reported a failure");
}

bool life_vm_started(struct sandbox *sb)
{
	if (sb->life->step != LIFE_START)
		return false;
	if (sb->adopted && sb->state == SANDBOX_PAUSED) {
		found_begin(sb);
		return true;
	}
	if (sb->adopted) {
		/* As it was when carreld ended: running, halted or saved. */
		resume_continue(sb);
		return true;
	}
	instant(INSTANT_RESUME_STARTED);
	set_close(&sb->life->set);
	guest_begin(sb, sb->agent_path);
	return true;
}

/* It ended before it counted as running again. */
static void resume_ended(struct sandbox *sb, const char *reason, const char *message)
{
	struct life *l = sb->life;
	char path[SET_PATH_MAX];

	sb->adopted = false;
	if (l->step != LIFE_GIVE_UP)
		fault_set(&l->fault, EIO, 500, "resume_failed", "The sandbox could not be resumed (%s). %.200s",
			  reason, message ? message : "");
	sandbox_machine_release(sb);
	life_set_path(sb, path);
	if (set_intact(path, sb->scratch_path))
		life_end(sb, -EIO);
	else
		sandbox_end(sb, reason, l->fault.message);
}

/* Found after a restart with a row that says running: what was saved of it may be complete. */
static bool adopted_ended(struct sandbox *sb)
{
	char path[SET_PATH_MAX];

	life_set_path(sb, path);
	if (!set_intact(path, sb->scratch_path))
		return false;
	core_log("sandbox %s was being paused when carreld ended: it is paused", sb->id);
	sandbox_machine_release(sb);
	sb->adopted = false;
	inside_hold(sb);
	sb->paused_ms = unix_ms();
	sandbox_enter(sb, SANDBOX_PAUSED);
	sandbox_set_deadline(sb, unix_ms() + (int64_t)sb->core->settings->paused_keep_s * 1000);
	sandbox_store(sb, NULL, NULL);
	life_end(sb, 0);
	return true;
}

bool life_vm_ended(struct sandbox *sb, const char *reason, const char *message)
{
	struct life *l = sb->life;

	if (l->op && !life_wakes(sb) && pause_vm_ended(sb))
		return true;
	if (sb->state == SANDBOX_PAUSED && (life_wakes(sb) || l->step == LIFE_GIVE_UP)) {
		resume_ended(sb, reason, message);
		return true;
	}
	return sb->adopted && sb->state == SANDBOX_RUNNING && adopted_ended(sb);
}

/* --- open --- */

static void open_work(struct life_job *job)
{
	job->err = set_open(job->path, job->disk, &job->host, &job->set, &job->fault);
}

static void open_done(struct sandbox *sb, struct life_job *job)
{
	struct fault f;
	int err;

	if (job->err < 0) {
		life_fail(sb, job->err, &job->fault);
		return;
	}
	instant(INSTANT_RESUME_OPENED);
	life_step(sb, LIFE_START);
	err = sandbox_machine_resume(sb, &sb->life->set, sb->life->set.scratch_fd);
	if (err == -ENOTCONN)
		life_fail(sb, fault_restarting(&f, "carrel-spawn is being started again; try again in a moment."), &f);
	else if (err < 0)
		life_fail(sb, fault_set(&f, -err, 500, "engine", "The machine could not be started: %s.",
					strerror(-err)),
			  &f);
}

void resume_begin(struct sandbox *sb)
{
	struct life *l = sb->life;
	struct life_job *job;
	struct fault f;
	int err;

	if (!engine_ops_of(sb->engine)->saves) {
		resume_continue(sb);
		return;
	}
	err = admission_wake(sb, l->op->quota, &f);
	if (err < 0) {
		life_fail(sb, err, &f);
		return;
	}
	pool_missed(sb->core, sb->engine, NULL, &sb->cls, NULL);
	life_step(sb, LIFE_OPEN);
	job = life_job_new(sb);
	if (!job)
		return;
	life_set_path(sb, job->path);
	snprintf(job->disk, sizeof(job->disk), "%s", sb->scratch_path);
	template_set_host(sb->core, sb->engine, &sb->base, &job->host);
	life_job_run(job, open_work, open_done);
}
