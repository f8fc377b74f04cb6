/* How a sandbox comes to be: admission, what it is made from, its row. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../store/audit.h"
#include "../store/ids.h"
#include "admission.h"
#include "engines.h"
#include "images.h"
#include "instant.h"
#include "pool.h"
#include "sandbox.h"
#include "source.h"
#include "starts.h"
#include "template.h"
#include "times.h"

/* What it will be cloned from. -EAGAIN: the snapshot of what the template gives by itself is still being made. */
static int template_choose(struct core *c, struct engine *engine, struct image *image, const struct sandbox_spec *spec,
			   struct vm_class *cls, struct template **ret, struct fault *f)
{
	struct template *t;
	struct vm_class usual;

	*ret = NULL;
	if (!template_class(spec->limits.memory_mb, spec->limits.cpus, spec->limits.disk_mb, cls))
		return 0;
	t = template_get(c, engine, image, cls);
	if (t && template_ready(t)) {
		*ret = t;
		return 0;
	}
	image_class(image, &usual);
	if (!t || memcmp(cls, &usual, sizeof(usual)) != 0 || t->state == TEMPLATE_FAILED)
		return 0;
	fault_set(f, EAGAIN, 503, "starting", "%s", t->why);
	f->retry_after_s = ADMISSION_RETRY_S;
	return -EAGAIN;
}

void sandbox_waiter_end(struct sandbox_waiter *w, int err)
{
	if (w->done)
		w->done(w, err);
	else
		hub_call_end(&w->call, err);
}

static struct sandbox *sandbox_from_spec(struct core *c, struct engine *engine, const struct sandbox_waiter *w,
					 struct image *image, const struct vm_class *cls, struct template *t,
					 const struct pool_member *m, struct source *source)
{
	const struct sandbox_spec *spec = w->spec;
	char id[STORE_ID_MAX];
	struct sandbox *sb;

	if (!m)
		id_new("sbx", id);
	sb = sandbox_new(c, engine, m ? pool_id(m) : id, w->owner, spec->env, spec->metadata);
	if (!sb)
		return NULL;
	snprintf(sb->template_name, sizeof(sb->template_name), "%s", spec->template_name);
	sb->limits = spec->limits;
	sb->cls = *cls;
	sb->template = t;
	sb->source = source ? source_ref(source) : NULL;
	snprintf(sb->image, sizeof(sb->image), "%s", source ? source->set.image : image->hash);
	sb->from = image;
	sb->pause_on_timeout = spec->pause_on_timeout;
	sb->auto_resume = spec->auto_resume;
	sb->created_ms = unix_ms();
	sandbox_keep(sb, spec->timeout_s);
	return sb;
}

static void create_begin(struct sandbox *sb, struct sandbox_waiter *w, struct pool_member *m)
{
	struct store_txn *txn = store_txn_new(sb->core->store);

	sb->create = w;
	sandbox_enter(sb, SANDBOX_CREATING);
	sandbox_row_add(sb, txn);
	store_txn_audit_by(txn, w->call.by, sb->owner, sb->id, "sandbox_create", "ok", w->spec->metadata);
	store_txn_submit(txn, NULL, NULL);
	instant(INSTANT_CREATE_ADMITTED);
	if (m)
		pool_give(m, sb);
	else
		starts_enter(sb);
}

static void create_refused(struct sandbox_waiter *w, int err)
{
	struct fault *f = &w->call.fault;

	if (f->status == 503 && !f->retry_after_s)
		f->retry_after_s = ADMISSION_RETRY_S;
	sandbox_waiter_end(w, err);
}

void sandbox_create_from(struct core *c, struct sandbox_waiter *w, struct source *source)
{
	struct fault *f = &w->call.fault;
	struct sandbox *sb;
	int err = 0;

	if (c->stopping)
		err = fault_set(f, ESHUTDOWN, 503, "stopping", "The appliance is stopping.");
	if (!err)
		err = admission_room(c, source->engine, w->owner, w->quota, &source->set.cls, w->spec->limits.cpus, f);
	if (!err)
		pool_missed(c, source->engine, w->spec, &source->set.cls, NULL);
	sb = err ? NULL
		 : sandbox_from_spec(c, source->engine, w, images_hashed(c, source->set.image), &source->set.cls, NULL,
				     NULL, source);
	if (!err && !sb)
		err = fault_set(f, ENOMEM, 503, "capacity", "Out of memory on the host.");
	if (err < 0)
		create_refused(w, err);
	else
		create_begin(sb, w, NULL);
}

void sandbox_create(struct core *c, struct sandbox_waiter *w)
{
	struct fault *f = &w->call.fault;
	struct engine *engine = NULL;
	struct image *image;
	struct template *t = NULL;
	struct vm_class cls = { 0 };
	struct pool_member *m = NULL;
	struct sandbox *sb = NULL;
	int err = 0;

	if (c->stopping)
		err = fault_set(f, ESHUTDOWN, 503, "stopping", "The appliance is stopping.");
	image = err ? NULL : images_named(c, w->spec->template_name, f);
	if (image)
		engine = engines_named(c, w->spec->engine, f);
	if (!err && !engine)
		err = -EINVAL;
	if (!err) {
		image_limits(image, &w->spec->limits);
		template_class(w->spec->limits.memory_mb, w->spec->limits.cpus, w->spec->limits.disk_mb, &cls);
		err = admission_room(c, engine, w->owner, w->quota, &cls, w->spec->limits.cpus, f);
	}
	if (!err && (m = pool_find(c, engine, image, w->spec, &cls)) != NULL)
		t = pool_template(m);
	else if (!err && (err = template_choose(c, engine, image, w->spec, &cls, &t, f)) == 0)
		pool_missed(c, engine, w->spec, &cls, t);
	if (t && t->fresh && !m)
		t = NULL; /* there is nothing to clone */
	if (!err) {
		sb = sandbox_from_spec(c, engine, w, image, &cls, t, m, NULL);
		if (!sb)
			err = fault_set(f, ENOMEM, 503, "capacity", "Out of memory on the host.");
	}
	if (err < 0)
		create_refused(w, err);
	else
		create_begin(sb, w, m);
}
