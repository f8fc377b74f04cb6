/* One operation at a time: the queue, the steps' limits, the end. */
#include "life.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "template.h"
#include "times.h"

/* Seconds a step may take on a badly loaded host. 0: the engine, the store or the
 * copies answer in any case. */
static const unsigned limits_s[LIFE_STEPS] = {
	[LIFE_FILES] = 60,
	[LIFE_FREEZE] = 60,    /* a sync inside */
	[LIFE_HALT] = 150,     /* past the engine's own limit */
	[LIFE_SAVE] = 150,
	[LIFE_SEAL] = 300,     /* gigabytes to a slow disk */
	[LIFE_STOP] = 10,      /* asked again then */
	[LIFE_COPY] = 300,
	[LIFE_OPEN] = 300,     /* every byte is read */
	[LIFE_START] = 90,     /* past the engine's own limit */
	[LIFE_FOUND] = 150,
	[LIFE_CONTINUE] = 150,
	[LIFE_LINK] = 60,
	[LIFE_IDENTITY] = 120, /* past the agent's own limit */
	[LIFE_GIVE_UP] = 10,
};

void life_step(struct sandbox *sb, enum life_step step)
{
	struct life *l = sb->life;

	l->step = step;
	if (limits_s[step])
		hub_timer_set(l->timer, limits_s[step] * 1000u);
	else
		hub_timer_stop(l->timer);
}

static void job_detach(struct life *l)
{
	if (l->job)
		l->job->sandbox = NULL;
	l->job = NULL;
}

static void on_limit(void *arg)
{
	struct sandbox *sb = arg;
	struct life *l = sb->life;
	struct fault f;
	int err;

	switch (l->step) {
	case LIFE_STOP:
	case LIFE_GIVE_UP:
		core_log("sandbox %s does not stop; the engine is asked again", sb->id);
		engine_ops_of(sb->engine)->stop(sb->vm, REASON_ASKED);
		life_step(sb, l->step);
		break;
	case LIFE_HALT:
	case LIFE_SAVE:
	case LIFE_FOUND:
	case LIFE_CONTINUE:
		sandbox_end(sb, "crashed(engine)", "The engine did not stop or continue the machine in time.");
		break;
	case LIFE_LINK:
	case LIFE_IDENTITY:
	case LIFE_START:
		life_link_broken(sb, "crashed(agent)", "The sandbox did not come back in time.");
		break;
	default:
		job_detach(l);
		l->set = (struct set)SET_NONE;
		err = fault_set(&f, ETIMEDOUT, 503, "busy",
				"The host took too long to write or read the saved sandbox; try again.");
		f.retry_after_s = 10;
		life_fail(sb, err, &f);
	}
}

static void on_again(void *arg)
{
	struct sandbox *sb = arg;

	if (sb->life->step == LIFE_IDENTITY && guest_is_up(sb->guest))
		life_link_up(sb);
}

struct life *life_new(struct sandbox *sb)
{
	struct life *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct life){ .set = SET_NONE };
	l->timer = hub_timer_new(sb->core->hub, on_limit, sb);
	l->again = hub_timer_new(sb->core->hub, on_again, sb);
	if (!l->timer || !l->again) {
		hub_timer_free(l->timer);
		hub_timer_free(l->again);
		free(l);
		return NULL;
	}
	return l;
}

void life_free(struct sandbox *sb)
{
	struct life *l = sb->life;

	if (!l)
		return;
	job_detach(l);
	copy_cancel(sb);
	set_close(&l->set);
	hub_timer_free(l->timer);
	hub_timer_free(l->again);
	free(l);
	sb->life = NULL;
}

const char *life_asker(const struct sandbox *sb)
{
	const struct life_op *op = sb->life->op;

	return op && !op->automatic ? op->call.by : NULL;
}

bool life_busy(const struct sandbox *sb)
{
	return sb->life->op || sb->life->step != LIFE_IDLE;
}

bool life_wakes(const struct sandbox *sb)
{
	return sb->life->step >= LIFE_OPEN && sb->life->step <= LIFE_IDENTITY;
}

void life_set_path(const struct sandbox *sb, char ret[SET_PATH_MAX])
{
	snprintf(ret, SET_PATH_MAX, "%s/sets/%s", sb->core->settings->state, sb->id);
}

void life_snapshot_path(const struct core *c, const char *id, char ret[SET_PATH_MAX])
{
	snprintf(ret, SET_PATH_MAX, "%s/snapshots/%s", c->settings->state, id);
}

void life_snapshots_dir(const struct core *c, char ret[BASE_PATH_MAX])
{
	snprintf(ret, BASE_PATH_MAX, "%s/snapshots", c->settings->cache);
}

void life_set_drop(struct sandbox *sb)
{
	struct life *l = sb->life;
	char snapshots[BASE_PATH_MAX];

	if (l->set.path[0] && l->making) {
		life_snapshots_dir(sb->core, snapshots);
		base_unpin(snapshots, &sb->base, l->made_id[0] ? l->made_id : sb->id);
		set_drop(&l->set);
	}
	set_close(&l->set);
	l->set = (struct set)SET_NONE;
	l->making = false;
}

/* --- work on the pool --- */

struct life_job *life_job_new(struct sandbox *sb)
{
	struct life_job *job = calloc(1, sizeof(*job));
	struct fault f;

	if (!job) {
		life_fail(sb, fault_no_memory(&f), &f);
		return NULL;
	}
	*job = (struct life_job){ .core = sb->core, .sandbox = sb, .set = sb->life->set };
	job->host = (struct set_host){ .rootfs_fd = -1, .ram_fd = -1 };
	job->making = sb->life->making;
	snprintf(job->pin, sizeof(job->pin), "%s", sb->life->made_id[0] ? sb->life->made_id : sb->id);
	life_snapshots_dir(sb->core, job->snapshots);
	sb->life->set = (struct set)SET_NONE;
	sb->life->job = job;
	return job;
}

static void job_work(void *arg)
{
	struct life_job *job = arg;

	job->work(job);
}

static void job_done(void *arg)
{
	struct life_job *job = arg;
	struct sandbox *sb = job->sandbox;

	if (!sb && job->making) {
		base_unpin(job->snapshots, &job->set.base, job->pin);
		set_drop(&job->set);
	} else if (!sb) {
		set_close(&job->set);
	} else {
		sb->life->job = NULL;
		sb->life->set = job->set;
		job->done(sb, job);
	}
	template_host_close(&job->host);
	json_decref(job->extra);
	free(job);
}

void life_job_run(struct life_job *job, void (*work)(struct life_job *job),
		  void (*done)(struct sandbox *sb, struct life_job *job))
{
	job->work = work;
	job->done = done;
	if (hub_work(job->core->hub, job_work, job_done, job) == 0)
		return;
	job->err = fault_set(&job->fault, EAGAIN, 503, "capacity", "No thread for the saved sandbox's files.");
	job->fault.retry_after_s = 1;
	job_done(job);
}

/* --- the queue --- */

static void op_end(struct life_op *op, int err, const struct fault *f)
{
	if (err < 0)
		op->call.fault = *f;
	hub_call_end(&op->call, err);
}

static void op_begin(struct sandbox *sb, struct life_op *op)
{
	bool paused = sb->state == SANDBOX_PAUSED;

	sb->life->op = op;
	if (op->verb == LIFE_FORK || op->verb == LIFE_SNAPSHOT) {
		copy_begin(sb);
	} else if (op->verb == LIFE_PAUSE && !paused) {
		pause_begin(sb);
	} else if (paused && (op->verb == LIFE_RESUME || (op->wake && sb->auto_resume))) {
		resume_begin(sb);
	} else {
		if (op->verb == LIFE_RESUME && op->timeout_s) {
			sandbox_keep(sb, op->timeout_s);
			sandbox_store(sb, NULL, NULL);
		}
		life_end(sb, 0);
	}
}

static void life_next(struct sandbox *sb)
{
	struct life *l = sb->life;
	struct life_op *op = l->waiting;

	if (life_busy(sb) || !op)
		return;
	l->waiting = op->next;
	op->next = NULL;
	op_begin(sb, op);
}

static struct sandbox *sandbox_of(const struct life_op *op)
{
	struct kernel *k;

	if (!op->kernel_id)
		return sandbox_find(op->core, op->owner, op->id);
	k = kernel_of_owner(op->core, op->owner, op->kernel_id);
	return k ? k->sandbox : NULL;
}

void life_ask(struct life_op *op)
{
	struct fault *f = &op->call.fault;
	struct sandbox *sb = sandbox_of(op);
	struct life_op **last;

	if (!sb) {
		hub_call_end(&op->call, fault_set(f, ENOENT, 404, "not_found", "There is no such sandbox."));
		return;
	}
	if (sb->state != SANDBOX_RUNNING && sb->state != SANDBOX_PAUSED) {
		hub_call_end(&op->call, fault_set(f, EBUSY, 409, "wrong_state", "The sandbox is %s.",
						  sandbox_state_name(sb->state)));
		return;
	}
	for (last = &sb->life->waiting; *last; last = &(*last)->next)
		;
	*last = op;
	life_next(sb);
}

void life_deadline(struct sandbox *sb)
{
	struct life *l = sb->life;
	struct life_op **last;

	if (l->automatic_asked)
		return;
	l->automatic_asked = true;
	l->automatic = (struct life_op){ .core = sb->core, .verb = LIFE_PAUSE, .automatic = true };
	for (last = &l->waiting; *last; last = &(*last)->next)
		;
	*last = &l->automatic;
	life_next(sb);
}

/* False: it is tried again. */
static bool automatic_end(struct sandbox *sb, int err, const struct fault *f)
{
	char message[SPAWN_MESSAGE_MAX];

	sb->life->automatic_asked = false;
	if (err == 0)
		return true;
	/* A part that is away, or a full disk: there is a while before its keeper ends it. */
	if (f->status >= 500 && unix_ms() < sb->deadline_ms + LIFE_GRACE_MS / 2)
		return false;
	snprintf(message, sizeof(message), "It was to be paused and could not be: %.200s", f->message);
	sandbox_end(sb, REASON_DEADLINE, message);
	return true;
}

void life_end(struct sandbox *sb, int err)
{
	struct life *l = sb->life;
	struct life_op *op = l->op;
	struct fault f = l->fault;
	bool again = false;

	life_step(sb, LIFE_IDLE);
	set_close(&l->set);
	l->set = (struct set)SET_NONE;
	l->op = NULL;
	l->err = 0;
	l->making = l->halted = l->back = l->made = false;
	l->tries = 0;
	l->made_id[0] = '\0';
	if (op)
		op->settled = sb->state == SANDBOX_RUNNING;
	if (op && !op->automatic && err == 0 && (op->verb == LIFE_PAUSE || op->verb == LIFE_RESUME))
		op->result = sandbox_json(sb);
	if (op && op->automatic)
		again = !automatic_end(sb, err, &f);
	else if (op)
		op_end(op, err, &f);
	/* The keeper's deadline again, and one that passed meanwhile. */
	if (sb->state == SANDBOX_RUNNING)
		sandbox_set_deadline(sb, sb->deadline_ms);
	if (again)
		hub_timer_set(sb->deadline_timer, LIFE_AGAIN_MS);
	if (sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_PAUSED)
		life_next(sb);
}

void life_fail(struct sandbox *sb, int err, const struct fault *f)
{
	struct life *l = sb->life;

	core_log("sandbox %s: %s", sb->id, f->message);
	l->err = err;
	l->fault = *f;
	life_set_drop(sb);
	if (l->halted)
		resume_continue(sb);
	else
		life_end(sb, err);
}

void life_cancel(struct sandbox *sb)
{
	struct life *l = sb->life;
	struct life_op *op = l->op, *next;
	struct fault f;
	int err = fault_set(&f, EBUSY, 409, "wrong_state", "The sandbox ended meanwhile (%s). %.150s", sb->reason,
			    sb->message);

	hub_timer_stop(l->timer);
	job_detach(l);
	copy_cancel(sb);
	life_set_drop(sb);
	l->op = NULL;
	l->step = LIFE_IDLE;
	if (op && !op->automatic)
		op_end(op, err, &f);
	for (op = l->waiting; op; op = next) {
		next = op->next;
		if (!op->automatic)
			op_end(op, err, &f);
	}
	l->waiting = NULL;
}
