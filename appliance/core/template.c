#include "template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "disk.h"
#include "engines.h"
#include "pool.h"
#include "times.h"

struct template_set {
	struct core *core;
	char dir[SNAPSHOT_PATH_MAX - 80];
	struct template *list;
	struct template *building;
};

static const unsigned memory_classes[] = { 512, 1024, 2048, 4096 };
static const unsigned vcpu_classes[] = { 1, 2, 4 };
static const unsigned disk_classes[] = { 1024, 4096, 16384 };

int template_set_new(struct core *c, struct template_set **ret, struct fault *f)
{
	struct template_set *ts = calloc(1, sizeof(*ts));
	char images[SNAPSHOT_PATH_MAX];

	if (!ts)
		return fault_set(f, ENOMEM, 500, "internal", "Out of memory.");
	ts->core = c;
	snprintf(ts->dir, sizeof(ts->dir), "%s/snapshots", c->settings->cache);
	mkdir(ts->dir, 0700);
	snprintf(images, sizeof(images), "%s/images", c->settings->cache);
	snapshot_sweep(ts->dir, images);
	*ret = ts;
	return 0;
}

void template_set_free(struct template_set *ts)
{
	struct template *t;

	if (!ts)
		return;
	while ((t = ts->list) != NULL) {
		ts->list = t->next;
		if (t->state == TEMPLATE_READY)
			snapshot_close(&t->snapshot);
		free(t);
	}
	free(ts);
}

static bool class_pick(const unsigned *classes, size_t n, double want, unsigned *ret)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (want <= classes[i]) {
			*ret = classes[i];
			return true;
		}
	}
	*ret = (unsigned)want + (want > (unsigned)want);
	return false;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

bool template_class(unsigned memory_mb, double cpus, unsigned disk_mb, struct vm_class *ret)
{
	bool fits = class_pick(memory_classes, COUNT(memory_classes), memory_mb, &ret->memory_mb);

	fits &= class_pick(vcpu_classes, COUNT(vcpu_classes), cpus, &ret->vcpus);
	fits &= class_pick(disk_classes, COUNT(disk_classes), disk_mb, &ret->disk_mb);
	return fits;
}

static void template_next(struct template_set *ts)
{
	struct template *t;

	if (ts->building || ts->core->stopping)
		return;
	for (t = ts->list; t; t = t->next) {
		if (t->state != TEMPLATE_WAITING)
			continue;
		ts->building = t;
		t->state = TEMPLATE_BUILDING;
		template_build_start(t);
		return;
	}
}

static void template_want_build(struct template *t)
{
	t->state = TEMPLATE_WAITING;
	snprintf(t->why, sizeof(t->why), "Another warm snapshot is being made first.");
	template_next(t->core->templates);
}

static void check_work(void *arg)
{
	struct template *t = arg;

	t->unsealed = snapshot_open(t->path, &t->snapshot, &t->fault) < 0;
}

static void check_done(void *arg)
{
	struct template *t = arg;

	if (!t->unsealed) {
		t->state = TEMPLATE_READY;
		t->clone_failures = 0;
		return;
	}
	if (t->fault.code[0] && strstr(t->fault.message, "no snapshot") == NULL)
		core_log("%s It is built again.", t->fault.message);
	template_want_build(t);
}

/* Nothing is made or checked for it; what its engine starts is what it is. */
static void template_fresh(struct template *t)
{
	t->fresh = true;
	t->snapshot = (struct snapshot){ .ram_fd = -1, .state_fd = -1, .scratch_fd = -1, .lock_fd = -1 };
	t->state = TEMPLATE_READY;
}

static void template_check(struct template *t)
{
	t->state = TEMPLATE_CHECKING;
	snprintf(t->why, sizeof(t->why), "The warm snapshot is being checked.");
	t->fault = (struct fault){ 0 };
	if (hub_work(t->core->hub, check_work, check_done, t) < 0)
		template_want_build(t);
}

struct template *template_get(struct core *c, struct engine *engine, struct image *image, const struct vm_class *cls)
{
	struct template_set *ts = c->templates;
	struct template *t;
	char key[65];

	for (t = ts->list; t; t = t->next) {
		if (t->engine == engine && t->image == image && memcmp(&t->cls, cls, sizeof(*cls)) == 0)
			return t;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->core = c;
	t->engine = engine;
	t->image = image;
	t->cls = *cls;
	snapshot_key(image, engines_fingerprint(c, engine), cls, key);
	snprintf(t->path, sizeof(t->path), "%s/%s", ts->dir, key);
	t->next = ts->list;
	ts->list = t;
	if (engine_ops_of(engine)->saves)
		template_check(t);
	else
		template_fresh(t);
	return t;
}

static void template_close(struct template *t)
{
	snapshot_close(&t->snapshot);
	t->generation++;
}

static void template_retire(struct template *t)
{
	template_close(t);
	t->tries = 0;
	template_want_build(t);
}

bool template_ready(struct template *t)
{
	if (t->state == TEMPLATE_FAILED && mono_ms() - t->failed_at_ms > TEMPLATE_REST_MS) {
		t->tries = 0;
		template_want_build(t);
	}
	if (t->state != TEMPLATE_READY)
		return false;
	if (t->fresh || snapshot_unchanged(&t->snapshot))
		return true;
	if (t->users > 0)
		return false;
	core_log("The files of snapshot %s changed since they were checked; checking again.", t->path);
	template_close(t);
	template_check(t);
	return false;
}

void template_clone_result(struct template *t, bool loaded)
{
	if (loaded || t->fresh) {
		t->clone_failures = 0;
		return;
	}
	if (++t->clone_failures < TEMPLATE_CLONE_FAILURES || t->state != TEMPLATE_READY || t->users > 0)
		return;
	core_log("Snapshot %s does not load any more; it is built again.", t->path);
	template_retire(t);
}

void template_built(struct template *t, int err, const struct fault *f)
{
	struct template_set *ts = t->core->templates;

	t->build = NULL;
	ts->building = NULL;
	core_check_stopped(t->core);
	if (!err) {
		t->state = TEMPLATE_READY;
		t->clone_failures = 0;
	} else if (++t->tries < TEMPLATE_TRIES && !t->core->stopping && strcmp(f->code, TEMPLATE_WARM_FAILED) != 0) {
		core_log("template: %s Trying again (%u of %d).", f->message, t->tries + 1, TEMPLATE_TRIES);
		template_want_build(t);
		return;
	} else {
		t->state = TEMPLATE_FAILED;
		t->failed_at_ms = mono_ms();
		snprintf(t->why, sizeof(t->why), "The warm snapshot could not be made: %.200s", f->message);
		core_log("%s", t->why);
	}
	template_next(ts);
}

/* A gigabyte of file takes its time to go. */
struct removal {
	char path[SNAPSHOT_PATH_MAX];
};

static void removal_work(void *arg)
{
	struct removal *r = arg;

	/* What was paused on it still needs its memory file; the next start looks again. */
	if (!base_pinned(r->path))
		disk_remove_dir(r->path);
}

static void template_remove(struct template *t)
{
	struct removal *r = calloc(1, sizeof(*r));

	if (t->state == TEMPLATE_READY)
		snapshot_close(&t->snapshot);
	if (r)
		memcpy(r->path, t->path, sizeof(r->path));
	if (r && hub_work(t->core->hub, removal_work, free, r) < 0)
		free(r);
	free(t);
}

static bool template_idle(const struct template *t)
{
	return t->users == 0 && t->state != TEMPLATE_CHECKING && t->state != TEMPLATE_WAITING &&
	       t->state != TEMPLATE_BUILDING;
}

bool templates_forget(struct core *c, const struct image *image)
{
	struct template **at, *t;

	for (t = c->templates->list; t; t = t->next) {
		if (t->image == image && (!template_idle(t) || !pool_forget(c, t)))
			return false;
	}
	for (at = &c->templates->list; (t = *at) != NULL;) {
		if (t->image != image) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		template_remove(t);
	}
	return true;
}

void template_set_host(struct core *c, const struct engine *engine, const struct base *base, struct set_host *ret)
{
	const struct template *t;
	const char *key;

	*ret = (struct set_host){ .cache = c->settings->cache,
				  .fingerprint = engines_fingerprint(c, engine),
				  .rootfs_fd = fcntl(c->image.rootfs_fd, F_DUPFD_CLOEXEC, 0),
				  .ram_fd = -1,
				  .base = *base };
	snprintf(ret->image, sizeof(ret->image), "%s", c->image.hash);
	for (t = c->templates->list; t && ret->ram_fd < 0; t = t->next) {
		key = strrchr(t->path, '/');
		if (t->state == TEMPLATE_READY && key && strcmp(key + 1, base->key) == 0 &&
		    strcmp(t->snapshot.ram_hash, base->ram) == 0 && snapshot_unchanged(&t->snapshot))
			ret->ram_fd = fcntl(t->snapshot.ram_fd, F_DUPFD_CLOEXEC, 0);
	}
}

void template_host_close(struct set_host *host)
{
	if (host->rootfs_fd >= 0)
		close(host->rootfs_fd);
	if (host->ram_fd >= 0)
		close(host->ram_fd);
	host->rootfs_fd = host->ram_fd = -1;
}

unsigned template_memory_mb(const struct core *c)
{
	const struct template *t = c->templates ? c->templates->building : NULL;

	return t ? t->cls.memory_mb + engine_overhead_mb(engine_ops_of(t->engine)) : 0;
}

bool templates_cancel(struct core *c)
{
	struct template *t = c->templates ? c->templates->building : NULL;

	if (t)
		template_build_cancel(t->build);
	return t != NULL;
}
