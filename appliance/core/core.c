/* The core's life, and its public calls: each is a closure on the hub that the
 * calling worker waits for. */
#include "core.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "admission.h"
#include "core_inner.h"
#include "engines.h"
#include "images.h"
#include "kernel.h"
#include "pool.h"
#include "sandbox.h"
#include "template.h"
#include "unstored.h"
#include "usage.h"

void core_log(const char *fmt, ...)
{
	char line[1024], *at;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	/* What a client or a guest named may hold a line's end. */
	for (at = line; *at; at++) {
		if ((unsigned char)*at < ' ')
			*at = '?';
	}
	fprintf(stderr, "carreld: %s\n", line);
}

static int core_open(struct core *c, struct fault *f)
{
	char spawn_path[300];
	int err = image_open(c->settings->image, &c->image, f);

	if (err < 0)
		return err;
	snprintf(spawn_path, sizeof(spawn_path), "%s/spawn.sock", c->settings->run);
	c->spawn_path = strdup(spawn_path);
	err = hub_new(&c->hub);
	if (err < 0)
		return fault_set(f, -err, 500, "internal", "The hub could not be made: %s.", strerror(-err));
	err = engines_open(c, f);
	return err ? err : template_set_new(c, &c->templates, f);
}

static void core_free(struct core *c)
{
	usage_free(c->usage);
	pool_free(c->pool);
	unstored_free(c->unstored);
	template_set_free(c->templates);
	engines_close(c);
	hub_free(c->hub);
	images_close(c);
	image_close(&c->image);
	free(c->spawn_path);
	free(c);
}

static void warm_begin(const char *name, void *arg)
{
	struct core *c = arg;
	struct vm_class cls;
	struct image *image;
	struct fault f;

	image = images_named(c, name, &f);
	if (!image) {
		core_log("template %s: %s", name, f.message);
		return;
	}
	image_class(image, &cls);
	template_get(c, c->engine, image, &cls);
}

int core_start(const struct settings *s, struct store *store, struct core **ret, struct fault *f)
{
	struct core *c = calloc(1, sizeof(*c));
	struct vm_class cls;
	int err;

	if (!c)
		return fault_set(f, ENOMEM, 500, "internal", "Out of memory.");
	*c = (struct core){ .settings = s, .store = store };
	c->image = (struct image){ .rootfs_fd = -1, .scratch_fd = -1, .kernel_fd = -1, .initrd_fd = -1, .guest_fd = -1 };
	c->memory_mb = s->memory_mb ? s->memory_mb : admission_host_memory_mb();
	snprintf(c->run_dir, sizeof(c->run_dir), "%s/run", s->state);
	err = core_open(c, f);
	if (!err && usage_new(c, &c->usage) < 0)
		err = fault_set(f, ENOMEM, 500, "internal", "Out of memory.");
	if (!err && unstored_new(c, &c->unstored) < 0)
		err = fault_set(f, ENOMEM, 500, "internal", "Out of memory.");
	if (!err)
		err = recover(c, f);
	if (err < 0) {
		core_free(c);
		return err;
	}
	image_class(&c->image, &cls);
	c->default_template = template_get(c, c->engine, &c->image, &cls);
	err = c->default_template ? pool_new(c, &c->pool) : -ENOMEM;
	/* Those built here are checked behind it, and made again where the engine is another one. */
	images_each(c, warm_begin, c);
	if (!err)
		err = hub_start(c->hub);
	if (err < 0) {
		core_free(c);
		return fault_set(f, -err, 500, "internal", "The hub's thread could not be started.");
	}
	*ret = c;
	return 0;
}

/* --- stop --- */

struct core_stop {
	struct hub_call call;
	struct core *core;
	bool end_sandboxes, gave_up;
};

/* Machines are killed at once; what does not end in this time is left to its keeper. */
enum { CORE_STOP_MS = 20 * 1000 };

static void on_stop_timeout(void *arg)
{
	struct core *c = arg;
	struct hub_call *call = c->stop_call;

	c->stop_call = NULL;
	if (call)
		hub_call_end(call, -ETIMEDOUT);
}

/* A paused one is files only: it outlives a stop, and is found by the next start. */
static bool lives(const struct sandbox *sb)
{
	return sb->state != SANDBOX_PAUSED || sb->vm;
}

static bool any_lives(const struct core *c)
{
	const struct sandbox *sb = c->sandboxes;

	while (sb && !lives(sb))
		sb = sb->next;
	return sb != NULL;
}

void core_check_stopped(struct core *c)
{
	struct hub_call *call = c->stop_call;

	if (!call || (c->end_sandboxes && any_lives(c)) || templates_cancel(c) || pool_cancel(c))
		return;
	c->stop_call = NULL;
	hub_timer_free(c->stop_timer);
	hub_call_end(call, 0);
}

static void stop_run(struct hub_call *call)
{
	struct core_stop *stop = (struct core_stop *)call;
	struct core *c = stop->core;
	struct sandbox *sb;

	c->stopping = true;
	c->end_sandboxes = stop->end_sandboxes;
	c->stop_call = call;
	c->stop_timer = hub_timer_new(c->hub, on_stop_timeout, c);
	if (c->stop_timer)
		hub_timer_set(c->stop_timer, CORE_STOP_MS);
	for (sb = c->sandboxes; sb && stop->end_sandboxes; sb = sb->next) {
		if (lives(sb))
			sandbox_end(sb, REASON_HOST_RESTART, "Carrel was stopped.");
	}
	core_check_stopped(c);
}

void core_stop(struct core *c, bool end_sandboxes)
{
	struct core_stop stop = { .core = c, .end_sandboxes = end_sandboxes };
	struct fault f;
	int err = hub_call(c->hub, &stop.call, stop_run);

	hub_stop(c->hub);
	if (err < 0) {
		/* Work on the pool may still use what would be freed; the process ends next. */
		core_log("not everything ended in %d s; what is left ends at its deadline",
			 CORE_STOP_MS / 1000);
		return;
	}
	/* The writer's last callbacks post to the hub: they come first. */
	store_txn_wait(store_txn_new(c->store), &f);
	hub_drain(c->hub);
	unstored_submit(c);
	store_txn_wait(store_txn_new(c->store), &f);
	hub_drain(c->hub);
	sandboxes_release(c);
	core_free(c);
}

/* --- questions --- */

struct core_question {
	struct hub_call call;
	struct core *core;
	bool ready;
	char why[320];
};

static void ready_run(struct hub_call *call)
{
	struct core_question *q = (struct core_question *)call;
	struct template *t = q->core->default_template;

	/* One that failed for good is no reason to refuse: sandboxes are booted then. */
	q->ready = template_ready(t) || t->state == TEMPLATE_FAILED;
	snprintf(q->why, sizeof(q->why), "%s", t->why);
	hub_call_end(call, 0);
}

bool core_ready(struct core *c, char *ret_why, size_t size)
{
	struct core_question q = { .core = c };

	hub_call(c->hub, &q.call, ready_run);
	if (!q.ready)
		snprintf(ret_why, size, "%s", q.why);
	return q.ready;
}

static void count_kernels(const struct sandbox *sb, struct core_figures *f)
{
	const struct kernel *k;

	for (k = sb->kernels; k; k = k->next) {
		f->kernels++;
		f->executions_running += k->running != NULL;
		f->executions_queued += k->queued;
	}
}

static void count_sandbox(const struct sandbox *sb, struct core_figures *f)
{
	unsigned i = 0;

	while (sb->core->engines[i].engine != sb->engine)
		i++;
	if (sb->state < SANDBOX_ENDED)
		f->engines[i].sandboxes[sb->state]++;
	count_kernels(sb, f);
}

static void figures_fill(struct core *c, struct core_figures *f)
{
	const struct sandbox *sb;
	unsigned i;

	_Static_assert((int)CORE_ENGINES_MAX < (int)FIGURES_ENGINES_MAX, "a place for each engine and the end");
	_Static_assert((int)SANDBOX_ENDED < (int)FIGURES_STATES_MAX, "a place for each state and the end");
	*f = (struct core_figures){
		.starts = c->starts,
		.ends = c->ends,
		.executions = c->executions,
		.lives = c->lives,
		.memory_mb = c->memory_mb,
		.memory_used_mb = admission_memory_used_mb(c),
		.cpus = admission_cpus(c),
		.cpus_used = admission_cpus_used(c),
		.template_ready = template_ready(c->default_template),
	};
	pool_figures(c, &f->pool);
	for (i = 0; i < SANDBOX_ENDED; i++)
		f->states[i] = sandbox_state_name((enum sandbox_state)i);
	for (i = 0; i < c->engine_count; i++)
		f->engines[i].name = engine_ops_of(c->engines[i].engine)->name;
	for (sb = c->sandboxes; sb; sb = sb->next)
		count_sandbox(sb, f);
}

struct core_figuring {
	struct hub_call call;
	struct core *core;
	struct core_figures *figures;
};

static void figures_run(struct hub_call *call)
{
	struct core_figuring *q = (struct core_figuring *)call;

	figures_fill(q->core, q->figures);
	hub_call_end(call, 0);
}

void core_figures(struct core *c, struct core_figures *ret)
{
	struct core_figuring q = { .core = c, .figures = ret };

	hub_call(c->hub, &q.call, figures_run);
}

static unsigned disk_free_mb(const struct core *c)
{
	struct statvfs fs;

	if (statvfs(c->settings->state, &fs) < 0)
		return 0;
	return (unsigned)(((unsigned long long)fs.f_bavail * fs.f_frsize) >> 20);
}

static json_t *pool_json(const struct pool_figures *p)
{
	return json_pack("{s:i,s:i,s:i,s:i,s:i,s:I,s:I,s:I,s:I,s:I}", "size", (int)p->size, "max",
			 (int)p->max, "ready", (int)p->ready, "filling", (int)p->filling, "memory_mb",
			 (int)p->memory_mb, "filled", (json_int_t)p->filled, "claimed",
			 (json_int_t)p->claimed, "missed", (json_int_t)p->missed, "lost", (json_int_t)p->lost,
			 "given_up", (json_int_t)p->given_up);
}

/* {STATE:n} of all engines. */
static json_t *states_json(const struct core_figures *f)
{
	json_t *states = json_object();
	unsigned i, j;

	for (i = 0; f->states[i]; i++) {
		unsigned n = 0;

		for (j = 0; f->engines[j].name; j++)
			n += f->engines[j].sandboxes[i];
		json_object_set_new(states, f->states[i], json_integer(n));
	}
	return states;
}

/* {ENGINE:n} of all states. */
static json_t *engines_json(const struct core_figures *f)
{
	json_t *names = json_object();
	unsigned i, j;

	for (j = 0; f->engines[j].name; j++) {
		unsigned n = 0;

		for (i = 0; f->states[i]; i++)
			n += f->engines[j].sandboxes[i];
		json_object_set_new(names, f->engines[j].name, json_integer(n));
	}
	return names;
}

int core_stats(struct core *c, json_t **ret)
{
	struct core_figures f;
	json_t *stats;

	core_figures(c, &f);
	stats = json_pack("{s:o, s:{s:i, s:i}, s:i, s:{s:i, s:i, s:f, s:f, s:i, s:i}, s:o, s:s, s:o, s:b}",
			  "sandboxes", states_json(&f), "executions", "running", (int)f.executions_running, "queued",
			  (int)f.executions_queued, "kernels", (int)f.kernels, "capacity", "memory_mb",
			  (int)f.memory_mb, "memory_used_mb", (int)f.memory_used_mb, "cpus", f.cpus,
			  "cpus_used", f.cpus_used, "disk_free_mb", (int)disk_free_mb(c),
			  "sandboxes_per_owner", (int)c->settings->sandboxes_per_owner, "pool",
			  pool_json(&f.pool), "engine", f.engines[0].name, "engines", engines_json(&f),
			  "template_ready", (int)f.template_ready);
	if (!stats)
		return -ENOMEM;
	*ret = stats;
	return 0;
}

int core_templates(struct core *c, const char *after, unsigned limit, json_t **ret)
{
	*ret = images_list(c, after, limit);
	return *ret ? 0 : -ENOMEM;
}

/* --- one template --- */

struct template_question {
	struct hub_call call;
	struct core *core;
	const char *name;
	bool ready;
	char why[320];
};

static void warm_run(struct hub_call *call)
{
	struct template_question *q = (struct template_question *)call;
	struct image *image = images_named(q->core, q->name, &call->fault);
	struct template *t;
	struct vm_class cls;

	if (!image) {
		hub_call_end(call, -EINVAL);
		return;
	}
	image_class(image, &cls);
	t = template_get(q->core, q->core->engine, image, &cls);
	q->ready = t && template_ready(t);
	snprintf(q->why, sizeof(q->why), "%s", t && !q->ready ? t->why : "");
	hub_call_end(call, 0);
}

int core_template(struct core *c, const char *name, json_t **ret, struct fault *f)
{
	struct template_question q = { .core = c, .name = name };
	int err = hub_call(c->hub, &q.call, warm_run);

	if (err < 0) {
		*f = q.call.fault;
		return strcmp(f->code, "unknown_template") == 0
			       ? fault_set(f, ENOENT, 404, "not_found", "There is no such template.")
			       : err;
	}
	*ret = images_row(c, name);
	if (!*ret)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such template.");
	json_object_set_new(*ret, "warm", json_boolean(q.ready));
	if (q.why[0])
		json_object_set_new(*ret, "message", json_string(q.why));
	return 0;
}
