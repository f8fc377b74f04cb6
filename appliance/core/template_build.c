/* Makes one warm snapshot: boot, identity, kernel, warm-up, freeze, pause, save,
 * stop, seal. A watchdog stands over every step. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/ids.h"
#include "engines.h"
#include "guest.h"
#include "identity.h"
#include "template_inner.h"
#include "times.h"

/* Seconds a step may take on a badly loaded host: about eight times what it takes on an idle one. */
static const struct {
	const char *what;
	unsigned limit_s;
} steps[] = {
	[STEP_FILES] = { "preparing its disk", 120 },
	[STEP_BOOT] = { "booting", 90 },
	[STEP_IDENTITY] = { "importing libraries", 400 },
	[STEP_KERNEL] = { "starting the kernel", 400 },
	[STEP_WARMUP] = { "warming up", 300 },
	[STEP_FREEZE] = { "syncing", 60 },
	[STEP_PAUSE] = { "pausing", 60 },
	[STEP_SAVE] = { "saving", 120 },
	[STEP_STOP] = { "stopping", 60 },
	[STEP_SEAL] = { "hashing and writing", 300 },
};

enum {
	PROGRESS_MS = 10 * 1000,
	/* The keeper ends the machine then, whatever became of us. */
	BUILD_MAX_MS = 1800 * 1000,
};

static void build_finish_later(struct template_build *b);

static void build_say(struct template_build *b)
{
	struct template *t = b->template;
	int seconds = (int)((mono_ms() - b->began_ms) / 1000);

	snprintf(t->why, sizeof(t->why), "The warm snapshot is being made: %s, %d s.", steps[b->step].what,
		 seconds);
	core_log("template %s, %u MB: %s (%d s)", t->image->template_name, t->cls.memory_mb,
		 steps[b->step].what, seconds);
}

void build_step(struct template_build *b, enum build_step step)
{
	b->step = step;
	b->step_ms = mono_ms();
	build_say(b);
	hub_timer_set(b->timer, PROGRESS_MS);
}

static void on_timer(void *arg)
{
	struct template_build *b = arg;
	char message[160];

	if (b->failed)
		return;
	if (mono_ms() - b->step_ms > (int64_t)steps[b->step].limit_s * 1000) {
		snprintf(message, sizeof(message), "The template's machine took more than %u s for %s.",
			 steps[b->step].limit_s, steps[b->step].what);
		build_fail(b, message);
		return;
	}
	build_say(b);
	hub_timer_set(b->timer, PROGRESS_MS);
}

/* The machine must be gone before anything is freed. */
void build_fail(struct template_build *b, const char *message)
{
	if (b->failed)
		return;
	b->failed = true;
	if (!b->fault.code[0])
		fault_set(&b->fault, EIO, 500, "template", "%s", message);
	hub_timer_stop(b->timer);
	if (b->vm && !b->vm_over)
		engine_ops_of(b->template->engine)->stop(b->vm, REASON_ASKED);
	build_finish_later(b);
}

void build_finish(void *arg)
{
	struct template_build *b = arg;
	struct template *t = b->template;

	if (b->working || b->next_waits || (b->vm && !b->vm_over))
		return;
	identity_free(b->identity);
	warmup_free(b->warmup);
	guest_free(b->guest);
	if (b->vm)
		engine_ops_of(b->template->engine)->free(b->vm);
	hub_timer_free(b->timer);
	if (b->failed && b->has_files)
		snapshot_drop(&b->snapshot);
	if (!b->failed)
		t->snapshot = b->snapshot;
	template_built(t, b->failed ? -EIO : 0, &b->fault);
	free(b);
}

/* Not from inside a link's or an engine's callback. */
static void build_finish_later(struct template_build *b)
{
	hub_post(b->core->hub, &b->finish, build_finish, b);
}

/* --- seal --- */

static void seal_work(void *arg)
{
	struct template_build *b = arg;

	b->work_failed = snapshot_seal(&b->snapshot, b->template->path, engines_fingerprint(b->core, b->template->engine),
				       b->template->image, &b->fault) < 0;
}

static void seal_done(void *arg)
{
	struct template_build *b = arg;

	b->working = false;
	b->failed |= b->work_failed;
	if (!b->failed)
		core_log("template %s, %u MB: ready after %d s", b->template->image->template_name,
			 b->template->cls.memory_mb, (int)((mono_ms() - b->began_ms) / 1000));
	build_finish(b);
}

static void build_seal(struct template_build *b)
{
	build_step(b, STEP_SEAL);
	/* Its machine is gone, and writing takes longer than a link is waited for. */
	guest_hold(b->guest, true);
	b->working = true;
	if (hub_work(b->core->hub, seal_work, seal_done, b) < 0) {
		b->working = false;
		build_fail(b, "No thread to write the snapshot.");
	}
}

/* --- machine --- */

static void on_vm_ended(struct vm *vm, const char *reason, const char *message, void *arg)
{
	struct template_build *b = arg;
	char text[400];

	(void)vm;
	b->vm_over = true;
	if (b->failed) {
		build_finish_later(b);
	} else if (b->step == STEP_STOP) {
		build_seal(b);
	} else {
		snprintf(text, sizeof(text), "The template's machine ended while %s (%s). %s",
			 steps[b->step].what, reason, message ? message : "");
		build_fail(b, text);
	}
}

static void vm_step(struct template_build *b, enum build_step step)
{
	const struct engine_ops *ops = engine_ops_of(b->template->engine);

	build_step(b, step);
	if ((step == STEP_PAUSE ? ops->pause(b->vm) : ops->save(b->vm, b->snapshot.state_fd, -1)) < 0)
		build_fail(b, "The engine refused to pause or save the template's machine.");
}

static void on_vm_done(struct vm *vm, int err, const char *message, void *arg)
{
	struct template_build *b = arg;
	const struct engine_ops *ops = engine_ops_of(b->template->engine);

	if (b->failed)
		return;
	if (err < 0) {
		build_fail(b, message ? message : "The template's machine could not be saved.");
	} else if (b->step == STEP_PAUSE) {
		vm_step(b, STEP_SAVE);
	} else if (b->step == STEP_SAVE) {
		build_step(b, STEP_STOP);
		ops->stop(vm, REASON_ASKED);
	}
}

/* --- freeze --- */

static void on_frozen(int err, int status, json_t *reply, void *arg)
{
	struct template_build *b = arg;
	struct fault f;

	if (b->failed)
		return;
	if (err < 0 || status != 200) {
		guest_fault(&f, err, status, reply);
		build_fail(b, f.message);
		return;
	}
	vm_step(b, STEP_PAUSE);
}

void build_freeze(struct template_build *b)
{
	json_t *empty = json_object();

	build_step(b, STEP_FREEZE);
	if (guest_call(b->guest, "POST", "/freeze", empty, steps[STEP_FREEZE].limit_s * 1000, on_frozen, b) <
	    0)
		build_fail(b, "The link to the template's machine was lost.");
	json_decref(empty);
}

/* --- identity, link --- */

static void on_identified(int err, const struct fault *f, json_t *kernels, void *arg)
{
	struct template_build *b = arg;

	(void)kernels;
	if (b->failed)
		return;
	if (err < 0) {
		build_fail(b, f->message);
		return;
	}
	template_warm_begin(b);
}

static void on_up(struct guest *g, void *arg)
{
	struct template_build *b = arg;
	struct limits limits = { .memory_mb = b->snapshot.cls.memory_mb, .disk_mb = b->snapshot.cls.disk_mb };
	struct identity_spec spec = { .hostname = "carrel", .limits = &limits };

	if (b->failed)
		return;
	if (b->warmup) {
		template_warm_attach(b);
		return;
	}
	identity_free(b->identity);
	b->identity = NULL;
	build_step(b, STEP_IDENTITY);
	if (identity_send(g, &spec, on_identified, b, &b->identity) < 0)
		build_fail(b, "The link to the template's machine was lost.");
}

static void on_broken(struct guest *g, const char *reason, const char *message, void *arg)
{
	(void)g;
	(void)reason;
	build_fail(arg, message);
}

static void on_vm_started(struct vm *vm, const char *agent_path, void *arg)
{
	static const struct guest_ops ops = { .up = on_up, .broken = on_broken };
	struct template_build *b = arg;

	(void)vm;
	if (b->failed)
		return;
	b->guest = guest_new(b->core->hub, agent_path, &ops, b);
	if (!b->guest)
		build_fail(b, "Out of memory.");
}

static void build_boot(struct template_build *b)
{
	static const struct vm_ops ops = { .started = on_vm_started,
					   .ended = on_vm_ended,
					   .done = on_vm_done };
	const struct image *image = b->template->image;
	struct vm_config config = { .id = b->id,
				    .mode = VM_TEMPLATE,
				    .cls = b->snapshot.cls,
				    .ram_fd = b->snapshot.ram_fd,
				    .state_fd = -1,
				    .pages_fd = -1,
				    .rootfs_fd = image->rootfs_fd,
				    .scratch_fd = b->snapshot.scratch_fd,
				    .kernel_fd = image->kernel_fd,
				    .initrd_fd = image->initrd_fd,
				    .guest_fd = -1,
				    .cpu_milli = b->snapshot.cls.vcpus * 1000,
				    .deadline_boottime_ns = boottime_of_unix_ms(unix_ms() + BUILD_MAX_MS) };
	int err;

	build_step(b, STEP_BOOT);
	err = engine_ops_of(b->template->engine)->start(b->template->engine, &config, &ops, b, &b->vm);
	if (err < 0) {
		b->vm = NULL;
		fault_set(&b->fault, -err, 500, "engine", "The template's machine could not be started: %s.",
			  strerror(-err));
		build_fail(b, "");
	}
}

/* --- files --- */

static void files_work(void *arg)
{
	struct template_build *b = arg;
	struct vm_class cls = b->snapshot.cls;

	b->work_failed =
		snapshot_begin(b->template->path, b->template->image, &cls, &b->snapshot, &b->fault) < 0;
	b->has_files = !b->work_failed;
}

static void files_done(void *arg)
{
	struct template_build *b = arg;

	b->working = false;
	b->failed |= b->work_failed;
	if (b->failed)
		build_finish(b);
	else
		build_boot(b);
}

void template_build_start(struct template *t)
{
	struct template_build *b = calloc(1, sizeof(*b));
	struct fault f;

	if (b) {
		*b = (struct template_build){ .core = t->core, .template = t, .began_ms = mono_ms() };
		b->snapshot.cls = t->cls;
		b->timer = hub_timer_new(t->core->hub, on_timer, b);
	}
	if (!b || !b->timer) {
		fault_set(&f, ENOMEM, 500, "template", "Out of memory.");
		free(b);
		template_built(t, -ENOMEM, &f);
		return;
	}
	id_new("tpl", b->id);
	t->build = b;
	build_step(b, STEP_FILES);
	b->working = true;
	if (hub_work(t->core->hub, files_work, files_done, b) < 0) {
		b->working = false;
		build_fail(b, "No thread to prepare the snapshot's files.");
	}
}

void template_build_cancel(struct template_build *b)
{
	build_fail(b, "The appliance is stopping.");
}
