#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admission.h"
#include "images.h"
#include "pool_member.h"
#include "template.h"
#include "times.h"

/* What is wanted of one size class. */
struct pool_class {
	struct pool_class *next;
	struct template *template;
	unsigned target;
	int64_t asked_ms; /* when one was last asked for, or the target last sank */
};

struct pool {
	struct core *core;
	struct pool_member *members;
	struct pool_class *classes;
	struct hub_timer *tick;
	unsigned base, max, fills; /* fills: at once */
	int64_t created_ms, failed_ms;
	uint64_t filled, claimed, missed, lost, given_up;
};

/* --- what there is --- */

static unsigned count_of(const struct pool *p, const struct template *t, bool ready)
{
	const struct pool_member *m;
	unsigned n = 0;

	for (m = p->members; m; m = m->next)
		n += (!t || m->template == t) && m->step <= POOL_READY && (!ready || m->step == POOL_READY);
	return n;
}

unsigned pool_memory_mb(const struct core *c)
{
	const struct pool_member *m;
	unsigned n = 0;

	for (m = c->pool ? c->pool->members : NULL; m; m = m->next)
		n += m->step == POOL_OVER ? 0 : m->cls.memory_mb + engine_overhead_mb(engine_ops_of(m->template->engine));
	return n;
}

unsigned pool_disk_mb(const struct core *c)
{
	const struct pool_member *m;
	unsigned n = 0;

	for (m = c->pool ? c->pool->members : NULL; m; m = m->next)
		n += m->step == POOL_OVER ? 0 : m->cls.disk_mb;
	return n;
}

static struct pool_class *class_of(struct pool *p, struct template *t)
{
	struct pool_class *k;

	for (k = p->classes; k; k = k->next) {
		if (k->template == t)
			return k;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->template = t;
	k->target = t == p->core->default_template ? p->base : 0;
	k->asked_ms = mono_ms();
	k->next = p->classes;
	p->classes = k;
	return k;
}

/* --- filling --- */

static bool host_busy(const struct pool *p, int64_t now)
{
	const struct sandbox *sb;

	if (now - p->created_ms < POOL_QUIET_MS)
		return true;
	for (sb = p->core->sandboxes; sb; sb = sb->next) {
		if (sb->state == SANDBOX_CREATING)
			return true;
	}
	return false;
}

/* The class that lacks most and can be filled. */
static struct pool_class *class_lacking(struct pool *p)
{
	struct pool_class *k, *most = NULL;
	unsigned lack, worst = 0;

	for (k = p->classes; k; k = k->next) {
		unsigned have = count_of(p, k->template, false);

		lack = k->target > have ? k->target - have : 0;
		if (lack > worst && template_ready(k->template)) {
			worst = lack;
			most = k;
		}
	}
	return most;
}

/* True: it waits for the host to be free, or for what it has begun. */
static bool pool_fill(struct pool *p, int64_t now)
{
	unsigned filling = count_of(p, NULL, false) - count_of(p, NULL, true);
	struct pool_class *k;
	struct pool_member *m;

	if (filling >= p->fills || now < p->failed_ms + POOL_REST_MS || host_busy(p, now))
		return true;
	k = count_of(p, NULL, false) < p->max ? class_lacking(p) : NULL;
	if (!k || !admission_fits(p->core, k->template->engine, &k->template->cls))
		return false;
	m = pool_member_new(p->core, k->template);
	if (!m) {
		p->failed_ms = now;
		return true;
	}
	m->next = p->members;
	p->members = m;
	return true;
}

/* --- shrinking --- */

static void class_shrink(struct pool *p, struct pool_class *k, int64_t now)
{
	unsigned base = k->template == p->core->default_template ? p->base : 0;
	struct pool_member *m, *oldest = NULL;

	if (k->target > base && now - k->asked_ms > POOL_SHRINK_MS) {
		k->target--;
		k->asked_ms = now;
	}
	if (count_of(p, k->template, true) <= k->target)
		return;
	for (m = p->members; m; m = m->next) {
		if (m->template == k->template && m->step == POOL_READY)
			oldest = m;
	}
	pool_member_end(oldest, NULL);
}

static void pool_sort_out(struct pool *p, int64_t now)
{
	struct pool_class *k;
	struct pool_member *m;

	for (m = p->members; m; m = m->next) {
		if (m->generation != m->template->generation)
			pool_member_end(m, "its snapshot is another one now.");
		else if (m->step == POOL_READY && now - m->began_ms > POOL_AGE_MS)
			pool_member_end(m, NULL);
	}
	for (k = p->classes; k; k = k->next)
		class_shrink(p, k, now);
}

static void pool_tick(void *arg)
{
	struct pool *p = arg;
	int64_t now = mono_ms();
	bool soon;

	if (p->core->stopping)
		return;
	class_of(p, p->core->default_template);
	pool_sort_out(p, now);
	soon = pool_fill(p, now);
	hub_timer_set(p->tick, soon ? POOL_FILL_TICK_MS : POOL_IDLE_TICK_MS);
}

void pool_member_filled(struct pool_member *m)
{
	m->core->pool->filled++;
	pool_tick(m->core->pool);
}

void pool_member_gone(struct pool_member *m)
{
	struct pool *p = m->core->pool;
	struct pool_member **at = &p->members;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	if (!p->core->stopping)
		hub_timer_set(p->tick, POOL_FILL_TICK_MS);
	core_check_stopped(p->core);
}

void pool_member_lost(struct pool_member *m)
{
	struct pool *p = m->core->pool;

	p->lost++;
	if (m->step < POOL_READY)
		p->failed_ms = mono_ms();
}

/* --- handing out --- */

static bool pool_serves(const struct core *c, const struct engine *e, const struct image *image,
			const struct sandbox_spec *spec, const struct vm_class *cls)
{
	struct limits usual = { 0 };

	image_limits(image, &usual);
	/* How many files a jail's disk takes was fixed when that was made. */
	if (!engine_ops_of(e)->saves && spec->limits.inodes != usual.inodes)
		return false;
	/* The machine's share of the host's CPUs was fixed when it was started. */
	return c->pool->max > 0 && spec->limits.cpus == (double)cls->vcpus;
}

struct pool_member *pool_find(struct core *c, const struct engine *e, const struct image *image,
			      const struct sandbox_spec *spec, const struct vm_class *cls)
{
	struct pool_member *m, *found = NULL;

	if (!pool_serves(c, e, image, spec, cls))
		return NULL;
	/* The oldest of them: what waits longest is used before it has to be replaced. */
	for (m = c->pool->members; m; m = m->next) {
		if (m->template->engine != e || m->template->image != image || memcmp(&m->cls, cls, sizeof(*cls)) != 0 ||
		    m->step != POOL_READY)
			continue;
		if (pool_member_usable(m))
			found = m;
		else
			pool_member_end(m, "its link or its snapshot is gone.");
	}
	return found;
}

const char *pool_id(const struct pool_member *m)
{
	return m->id;
}

struct template *pool_template(const struct pool_member *m)
{
	return m->template;
}

static void pool_asked(struct pool *p, struct template *t, bool more)
{
	struct pool_class *k = class_of(p, t);

	p->created_ms = mono_ms();
	hub_timer_set(p->tick, POOL_FILL_TICK_MS);
	if (!k)
		return;
	k->asked_ms = p->created_ms;
	if (more && k->target < p->max)
		k->target++;
}

void pool_give(struct pool_member *m, struct sandbox *sb)
{
	struct core *c = m->core;
	struct pool *p = c->pool;
	struct pool_member **at = &p->members;
	struct template *t = m->template;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	p->claimed++;
	pool_member_give(m, sb);
	pool_asked(p, t, false);
}

/* The one to give up first: what is not ready yet, else the youngest. */
static struct pool_member *pool_least(struct pool *p)
{
	struct pool_member *m, *least = NULL;

	for (m = p->members; m; m = m->next) {
		if (m->step != POOL_OVER && (!least || (m->step < POOL_READY && least->step == POOL_READY)))
			least = m;
	}
	return least;
}

static void pool_make_room(struct pool *p, const struct engine *e, const struct vm_class *cls)
{
	struct pool_member *m;

	while (!admission_fits(p->core, e, cls) && (m = pool_least(p)) != NULL) {
		p->given_up++;
		pool_member_end(m, NULL);
	}
}

void pool_missed(struct core *c, const struct engine *e, const struct sandbox_spec *spec,
		 const struct vm_class *cls, struct template *t)
{
	struct pool *p = c->pool;

	pool_make_room(p, e, cls);
	if (!t || !pool_serves(c, e, t->image, spec, cls))
		return;
	p->missed++;
	pool_asked(p, t, true);
}

/* --- life --- */

static unsigned default_base(const struct core *c)
{
	unsigned each = c->default_template->cls.memory_mb + engine_overhead_mb(engine_ops_of(c->engine));
	unsigned base = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);

	if (base > POOL_DEFAULT_MAX)
		base = POOL_DEFAULT_MAX;
	if (base > c->memory_mb / POOL_DEFAULT_SHARE / each)
		base = c->memory_mb / POOL_DEFAULT_SHARE / each;
	return base;
}

int pool_new(struct core *c, struct pool **ret)
{
	const struct settings *s = c->settings;
	struct pool *p = calloc(1, sizeof(*p));
	unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);

	if (!p)
		return -ENOMEM;
	p->core = c;
	p->base = s->pool == SETTINGS_BY_HOST ? default_base(c) : s->pool;
	p->max = s->pool_max ? s->pool_max : p->base * POOL_GROWTH;
	if (s->pool == 0)
		p->max = 0;
	if (p->base > p->max)
		p->base = p->max;
	p->fills = cpus > 2 ? cpus / 2 : 1;
	p->failed_ms = p->created_ms = -POOL_REST_MS;
	p->tick = hub_timer_new(c->hub, pool_tick, p);
	if (!p->tick) {
		free(p);
		return -ENOMEM;
	}
	if (p->max)
		hub_timer_set(p->tick, POOL_FILL_TICK_MS);
	*ret = p;
	return 0;
}

bool pool_forget(struct core *c, const struct template *t)
{
	struct pool_class **at = &c->pool->classes, *k;
	struct pool_member *m;
	bool left = false;

	while ((k = *at) != NULL) {
		if (k->template == t) {
			*at = k->next;
			free(k);
		} else {
			at = &k->next;
		}
	}
	for (m = c->pool->members; m; m = m->next) {
		if (m->template != t)
			continue;
		pool_member_end(m, NULL);
		left = true;
	}
	return !left;
}

bool pool_cancel(struct core *c)
{
	struct pool_member *m;

	for (m = c->pool->members; m; m = m->next)
		pool_member_end(m, NULL);
	return c->pool->members != NULL;
}

void pool_free(struct pool *p)
{
	struct pool_member *m;
	struct pool_class *k;

	if (!p)
		return;
	while ((m = p->members) != NULL) {
		p->members = m->next;
		pool_member_free(m);
	}
	while ((k = p->classes) != NULL) {
		p->classes = k->next;
		free(k);
	}
	hub_timer_free(p->tick);
	free(p);
}

void pool_figures(const struct core *c, struct pool_figures *ret)
{
	const struct pool *p = c->pool;
	const struct pool_class *k;
	unsigned all = count_of(p, NULL, false), ready = count_of(p, NULL, true);

	*ret = (struct pool_figures){ .ready = ready,
				      .filling = all - ready,
				      .max = p->max,
				      .memory_mb = pool_memory_mb(c),
				      .filled = p->filled,
				      .claimed = p->claimed,
				      .missed = p->missed,
				      .lost = p->lost,
				      .given_up = p->given_up };
	for (k = p->classes; k; k = k->next)
		ret->size += k->target;
	if (!p->classes)
		ret->size = p->base;
}
