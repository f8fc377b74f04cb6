/* The way up: scratch disk, machine, link, identity. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "identity.h"
#include "instant.h"
#include "kernel.h"
#include "life.h"
#include "process.h"
#include "sandbox.h"
#include "source.h"
#include "template.h"
#include "times.h"

/* Work on the pool; lives on its own, so that a sandbox can end meanwhile. */
struct scratch_job {
	struct core *core;
	struct sandbox *sandbox; /* NULL: it ended, the disk is to be removed */
	struct template *template;
	struct source *source;
	char path[512];
	int from_fd, fd, err;
	unsigned disk_mb, inodes;
	struct fault fault;
};

enum {
	/* A machine of the pool answers within 30 ms; on a host that is overloaded, a clone still helps. */
	TAKEN_LIMIT_MS = 15 * 1000,
};

/* --- identity --- */

/* env of the template's recipe below the sandbox's own. */
static json_t *environment(const struct sandbox *sb)
{
	json_t *env = json_deep_copy(json_object_get(sb->from->recipe, "env"));

	if (!json_is_object(env)) {
		json_decref(env);
		env = json_object();
	}
	json_object_update(env, sb->env);
	return env;
}

static void on_identified(int err, const struct fault *f, json_t *kernels, void *arg)
{
	struct sandbox *sb = arg;

	if (sb->state != SANDBOX_CREATING) {
		if (err != -ECANCELED)
			life_identified(sb, err, f);
		return;
	}
	/* The link was cut under the answer: up() asks again. */
	if (err == -ECONNRESET)
		return;
	if (err < 0) {
		/* Another machine of the same image would answer the same. */
		if (err == -ENOTSUP || !sandbox_machine_retry(sb))
			sandbox_end(sb, "start-failed", f->message);
		return;
	}
	sb->identified = true;
	instant(sb->source ? INSTANT_FORK_IDENTIFIED : INSTANT_CREATE_IDENTIFIED);
	if (sb->template)
		template_clone_result(sb->template, true);
	sandbox_run(sb, kernels);
}

void sandbox_machine_identify(struct sandbox *sb)
{
	struct identity_spec spec = { .hostname = sb->id, .env = environment(sb), .limits = &sb->limits };
	int err;

	identity_free(sb->identity);
	sb->identity = NULL;
	err = identity_send(sb->guest, &spec, on_identified, sb, &sb->identity);
	json_decref(spec.env);
	if (err < 0 && err != -ENOTCONN)
		sandbox_end(sb, "start-failed", "The sandbox's agent could not be asked.");
}

static void on_link_up(struct guest *g, void *arg)
{
	struct sandbox *sb = arg;

	(void)g;
	if (sb->state == SANDBOX_CREATING)
		sandbox_machine_identify(sb);
	else if (!life_link_up(sb) && sb->state == SANDBOX_RUNNING)
		inside_link_up(sb);
}

static void on_link_broken(struct guest *g, const char *reason, const char *message, void *arg)
{
	struct sandbox *sb = arg;

	(void)g;
	if (!sandbox_machine_retry(sb))
		life_link_broken(sb, reason, message);
}

/* --- machine --- */

static const struct guest_ops guest_ops = { .up = on_link_up, .broken = on_link_broken };

int sandbox_machine_link(struct sandbox *sb, const char *agent_path)
{
	sb->guest = guest_new(sb->core->hub, agent_path, &guest_ops, sb);
	return sb->guest ? 0 : -ENOMEM;
}

static void on_vm_started(struct vm *vm, const char *agent_path, void *arg)
{
	struct sandbox *sb = arg;

	(void)vm;
	snprintf(sb->agent_path, sizeof(sb->agent_path), "%s", agent_path);
	if (life_vm_started(sb) || sb->state != SANDBOX_CREATING)
		return;
	instant(sb->source ? INSTANT_FORK_STARTED : INSTANT_CREATE_STARTED);
	if (sandbox_machine_link(sb, agent_path) < 0)
		sandbox_end(sb, "start-failed", "Out of memory on the host.");
}

static void vm_gone(void *arg)
{
	struct sandbox *sb = arg;

	/* One that ends since is taken apart by its teardown. */
	if (sb->state != SANDBOX_RUNNING && sb->state != SANDBOX_PAUSED)
		return;
	if (life_vm_ended(sb, sb->gone_reason, sb->gone_message))
		return;
	sandbox_end(sb, sb->gone_reason, sb->gone_message);
}

static void gone_note(struct sandbox *sb, const char *reason, const char *message)
{
	snprintf(sb->gone_reason, sizeof(sb->gone_reason), "%s", reason);
	snprintf(sb->gone_message, sizeof(sb->gone_message), "%s", message ? message : "");
}

static void on_vm_ended(struct vm *vm, const char *reason, const char *message, void *arg)
{
	struct sandbox *sb = arg;

	(void)vm;
	sb->vm_ended = true;
	if (life_busy(sb) && sb->state <= SANDBOX_PAUSED) {
		/* Not from inside the engine's callback: it may be let go of. */
		gone_note(sb, reason, message);
		hub_post(sb->core->hub, &sb->gone_item, vm_gone, sb);
		return;
	}
	if (sb->state == SANDBOX_CREATING && sb->template && strcmp(reason, REASON_DEADLINE) != 0) {
		gone_note(sb, reason, message);
		sb->gave_up_clone = true;
	} else {
		sandbox_end(sb, reason, message);
	}
	sandbox_vm_gone(sb);
}

static void on_vm_done(struct vm *vm, int err, const char *message, void *arg)
{
	struct sandbox *sb = arg;

	(void)vm;
	life_vm_done(sb, err, message);
}

static const struct vm_ops vm_ops = { .started = on_vm_started, .ended = on_vm_ended, .done = on_vm_done };

/* What the clone is made from is what may be saved of it later; and which kernels are in it. */
static void base_note(struct sandbox *sb, const struct template *t)
{
	const char *key = strrchr(t->path, '/');

	memcpy(sb->warm, t->snapshot.warm, sizeof(sb->warm));
	sb->warm_count = t->snapshot.warm_count;
	if (t->fresh)
		return;
	snprintf(sb->base.key, sizeof(sb->base.key), "%s", key ? key + 1 : "");
	memcpy(sb->base.ram, t->snapshot.ram_hash, sizeof(sb->base.ram));
}

int sandbox_machine_resume(struct sandbox *sb, const struct set *set, int scratch_fd)
{
	struct vm_config config = {
		.id = sb->id,
		.mode = VM_RESUME,
		.cls = set->cls,
		.ram_fd = set->ram_fd,
		.state_fd = set->state_fd,
		.pages_fd = set->pages_fd,
		.rootfs_fd = set->rootfs_fd,
		.scratch_fd = scratch_fd,
		.kernel_fd = -1,
		.initrd_fd = -1,
		.guest_fd = -1,
		.cpu_milli = (unsigned)(sb->limits.cpus * 1000),
		.deadline_boottime_ns = boottime_of_unix_ms(unix_ms() + LIFE_KEEPER_MS),
	};
	int err;

	sb->vm_ended = false;
	usage_machine(sb);
	err = engine_ops_of(sb->engine)->start(sb->engine, &config, &vm_ops, sb, &sb->vm);
	if (err < 0) {
		sb->vm = NULL;
		sb->vm_ended = true;
	}
	return err;
}

static void start_failed(struct sandbox *sb, int err)
{
	char message[128];

	if (err == -ENOTCONN) {
		sandbox_end(sb, REASON_HOST_RESTART, "carrel-spawn is being started again; try again in a moment.");
		return;
	}
	snprintf(message, sizeof(message), "The machine could not be started: %s.", strerror(-err));
	sandbox_end(sb, "start-failed", message);
}

static void copy_launch(struct sandbox *sb, int scratch_fd)
{
	int err;

	sb->started = sb->source->started;
	sb->base = sb->source->set.base;
	err = sandbox_machine_resume(sb, &sb->source->set, scratch_fd);
	if (err < 0) {
		start_failed(sb, err);
	} else {
		sandbox_set_deadline(sb, sb->deadline_ms);
	}
}

static void machine_launch(struct sandbox *sb, int scratch_fd)
{
	const struct image *image = sb->from;
	const struct engine_ops *ops = engine_ops_of(sb->engine);
	struct template *t = sb->template;
	struct vm_config config = {
		.id = sb->id,
		.mode = t ? VM_CLONE : VM_BOOT,
		.cls = sb->cls,
		.ram_fd = t ? t->snapshot.ram_fd : -1,
		.state_fd = t ? t->snapshot.state_fd : -1,
		.pages_fd = -1,
		.rootfs_fd = image->rootfs_fd,
		.scratch_fd = scratch_fd,
		.kernel_fd = t ? -1 : image->kernel_fd,
		.initrd_fd = t ? -1 : image->initrd_fd,
		.guest_fd = t ? -1 : image->guest_fd,
		.cpu_milli = (unsigned)(sb->limits.cpus * 1000),
		.deadline_boottime_ns = sandbox_keeper_deadline(sb),
	};
	int err;

	sb->started = t ? "clone" : "boot";
	sb->base = (struct base){ .key = "" };
	if (t)
		base_note(sb, t);
	sb->channel_received = t ? t->snapshot.received : 0;
	sb->channel_sent = t ? t->snapshot.sent : 0;
	sb->vm_ended = false;
	err = ops->start(sb->engine, &config, &vm_ops, sb, &sb->vm);
	if (err < 0) {
		sb->vm = NULL;
		start_failed(sb, err);
	}
}

/* --- scratch disk --- */

static void scratch_work(void *arg)
{
	struct scratch_job *job = arg;

	job->err = scratch_make(job->path, job->from_fd, job->disk_mb, job->inodes, &job->fd, &job->fault);
}

static void scratch_done(void *arg)
{
	struct scratch_job *job = arg;
	struct sandbox *sb = job->sandbox;

	if (job->template)
		job->template->users--;
	source_unref(job->source);
	if (sb)
		sb->scratch = NULL;
	if (!sb)
		unlink(job->path);
	else if (job->err < 0)
		sandbox_end(sb, job->err == -ENOSPC ? "host-disk-full" : "start-failed", job->fault.message);
	else if (sb->state == SANDBOX_CREATING) {
		instant(INSTANT_CREATE_DISK);
		if (sb->source)
			copy_launch(sb, job->fd);
		else
			machine_launch(sb, job->fd);
	}
	if (job->fd >= 0)
		close(job->fd);
	free(job);
}

void sandbox_machine_start(struct sandbox *sb)
{
	const struct image *image = sb->from;
	struct scratch_job *job = calloc(1, sizeof(*job));
	struct template *t = sb->template;

	if (!job) {
		sandbox_end(sb, "start-failed", "Out of memory on the host.");
		return;
	}
	*job = (struct scratch_job){
		.core = sb->core, .sandbox = sb, .template = t, .fd = -1, .disk_mb = sb->cls.disk_mb
	};
	snprintf(job->path, sizeof(job->path), "%s", sb->scratch_path);
	if (sb->source)
		job->source = source_ref(sb->source);
	if (sb->source)
		job->from_fd = sb->source->set.scratch_fd;
	else if (t)
		job->from_fd = t->snapshot.scratch_fd;
	else
		job->from_fd = image->disk_mb == sb->cls.disk_mb ? image->scratch_fd : -1;
	/* A guest's kernel has quotas; the jail's is the host's, which may have none: its disk is made with as many. */
	if (!engine_ops_of(sb->engine)->saves && sb->limits.inodes) {
		job->from_fd = -1;
		job->inodes = sb->limits.inodes;
	}
	sb->scratch = job;
	if (t)
		t->users++;
	if (hub_work(sb->core->hub, scratch_work, scratch_done, job) < 0) {
		job->err = -EAGAIN;
		fault_set(&job->fault, EAGAIN, 503, "capacity", "No thread to make the sandbox's disk.");
		scratch_done(job);
	}
}

static void on_timed(int err, const struct fault *f, json_t *kernels, void *arg)
{
	struct sandbox *sb = arg;

	(void)kernels;
	on_identified(err, f, sb->ready_kernels, sb);
}

/* It has names and randomness that no other machine has: what is new is the time,
 * and what this sandbox has otherwise than its template. */
static void machine_awake(struct sandbox *sb, const struct limits *told)
{
	bool same = json_object_size(sb->env) == 0 && limits_inside_same(&sb->limits, told);

	if (!same || identity_send_time(sb->guest, on_timed, sb, &sb->identity) < 0)
		sandbox_machine_identify(sb);
}

void sandbox_machine_take(struct sandbox *sb, const struct ready_machine *m)
{
	const struct engine_ops *ops = engine_ops_of(sb->engine);

	sb->started = "pool";
	base_note(sb, sb->template);
	snprintf(sb->agent_path, sizeof(sb->agent_path), "%s", m->agent_path);
	sb->channel_received = m->received;
	sb->channel_sent = m->sent;
	sb->ready_kernels = m->kernels;
	sb->vm = m->vm;
	sb->vm_ended = false;
	sb->guest = m->guest;
	ops->hand_over(sb->vm, &vm_ops, sb);
	guest_hand_over(sb->guest, &guest_ops, sb);
	sandbox_set_deadline(sb, sb->deadline_ms);
	hub_timer_set(sb->state_timer, TAKEN_LIMIT_MS);
	guest_paused(sb->guest, false);
	/* What is asked meanwhile is answered once it runs. */
	if (ops->resume(sb->vm) < 0)
		sandbox_machine_retry(sb);
	else
		machine_awake(sb, &m->limits);
}

bool sandbox_machine_retry(struct sandbox *sb)
{
	if (sb->state != SANDBOX_CREATING || !sb->template || sb->gave_up_clone || !sb->vm)
		return false;
	sb->gave_up_clone = true;
	if (!sb->vm_ended)
		engine_ops_of(sb->engine)->stop(sb->vm, "start-failed");
	return true;
}

int sandbox_machine_adopt(struct sandbox *sb)
{
	int err = engine_ops_of(sb->engine)->adopt(sb->engine, sb->id, &vm_ops, sb, &sb->vm);

	if (err < 0)
		sb->vm = NULL;
	return err;
}

void sandbox_machine_free(struct sandbox *sb)
{
	char set[SET_PATH_MAX], snapshots[BASE_PATH_MAX];

	if (sb->scratch)
		sb->scratch->sandbox = NULL;
	else if (sb->scratch_path[0])
		unlink(sb->scratch_path);
	sb->scratch = NULL;
	if (sb->scratch_path[0]) {
		life_set_path(sb, set);
		life_snapshots_dir(sb->core, snapshots);
		set_remove(set, snapshots, sb->id);
	}
	sandbox_machine_release(sb);
}

void sandbox_machine_release(struct sandbox *sb)
{
	json_decref(sb->ready_kernels);
	sb->ready_kernels = NULL;
	identity_free(sb->identity);
	sb->identity = NULL;
	guest_free(sb->guest);
	sb->guest = NULL;
	if (sb->vm)
		engine_ops_of(sb->engine)->free(sb->vm);
	sb->vm = NULL;
	sb->vm_ended = true;
}
