/* The public calls on a sandbox's life: each is an operation that the calling worker
 * waits for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engines.h"
#include "instant.h"
#include "life.h"
#include "source.h"
#include "template.h"

static void ask_run(struct hub_call *call)
{
	life_ask((struct life_op *)call);
}

static int ask(struct life_op *op, json_t **ret, struct fault *f)
{
	struct core *c = op->core;
	int err = store_owner_quota(c->store, op->owner, c->settings->sandboxes_per_owner, &op->quota);

	if (err < 0)
		return fault_set(f, -err, 500, "store", "The owner's quota could not be read: %s.",
				 strerror(-err));
	err = hub_call(c->hub, &op->call, ask_run);
	if (err < 0) {
		json_decref(op->result);
		*f = op->call.fault;
		return refine_missing(c, op->owner, op->id, err, f);
	}
	*ret = op->result;
	return 0;
}

int core_sandbox_pause(struct core *c, const char *owner, const char *id, json_t **ret, struct fault *f)
{
	struct life_op op = { .core = c, .owner = owner, .id = id, .verb = LIFE_PAUSE };

	return ask(&op, ret, f);
}

int core_sandbox_resume(struct core *c, const char *owner, const char *id, unsigned timeout_s, json_t **ret,
			struct fault *f)
{
	struct life_op op = {
		.core = c, .owner = owner, .id = id, .verb = LIFE_RESUME, .timeout_s = timeout_s
	};

	return ask(&op, ret, f);
}

int core_sandbox_fork(struct core *c, const char *owner, const char *id, unsigned count, unsigned timeout_s,
		      json_t **ret, struct fault *f)
{
	struct life_op op = { .core = c,
			      .owner = owner,
			      .id = id,
			      .verb = LIFE_FORK,
			      .count = count,
			      .timeout_s = timeout_s };

	return ask(&op, ret, f);
}

bool core_settle(struct core *c, const char *owner, const char *id, const char *kernel_id, bool wake,
		 struct fault *f)
{
	struct life_op op = {
		.core = c, .owner = owner, .id = id, .kernel_id = kernel_id, .verb = LIFE_SETTLE, .wake = wake
	};
	struct fault was = *f;
	json_t *none;

	if (!f->busy || ask(&op, &none, f) < 0)
		return false;
	/* A paused one that nothing woke is paused still. */
	*f = was;
	return op.settled;
}

/* --- snapshots --- */

int core_snapshot_create(struct core *c, const char *owner, const char *sandbox_id, const char *name, json_t **ret,
			 struct fault *f)
{
	struct life_op op = {
		.core = c, .owner = owner, .id = sandbox_id, .verb = LIFE_SNAPSHOT, .name = name, .count = 1
	};
	unsigned have = 0;
	int err = store_snapshot_count(c->store, owner, &have);

	if (err < 0)
		return fault_set(f, -err, 500, "store", "The snapshots could not be counted: %s.",
				 strerror(-err));
	if (have >= LIFE_SNAPSHOTS_MAX) {
		err = fault_set(f, EDQUOT, 429, "quota", "You have %u snapshots already; delete some first.", have);
		f->retry_after_s = 60;
		return err;
	}
	return ask(&op, ret, f);
}

static int snapshot_row(struct core *c, const char *owner, const char *id, json_t **ret, struct fault *f)
{
	int err = store_snapshot_get(c->store, owner, id, ret);

	if (err == -ENOENT)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such snapshot.");
	if (err < 0)
		return fault_set(f, -err, 500, "store", "The snapshot could not be read: %s.", strerror(-err));
	return 0;
}

/* The row goes first: files without a row are removed by the next start. */
int core_snapshot_delete(struct core *c, const char *owner, const char *id, struct fault *f)
{
	char path[SET_PATH_MAX], snapshots[BASE_PATH_MAX];
	json_t *row = NULL;
	struct store_txn *t;
	int err = snapshot_row(c, owner, id, &row, f);

	if (err < 0)
		return err;
	t = store_txn_new(c->store);
	store_txn_snapshot_gone(t, id);
	store_txn_audit(t, owner, json_string_value(json_object_get(row, "sandbox_id")), "snapshot_delete", row);
	json_decref(row);
	err = store_txn_wait(t, f);
	if (err < 0)
		return err;
	instant(INSTANT_SNAPSHOT_DELETED);
	life_snapshot_path(c, id, path);
	life_snapshots_dir(c, snapshots);
	set_remove(path, snapshots, id);
	return 0;
}

struct start {
	struct hub_call call;
	struct sandbox_waiter *w;
	struct engine *engine;
	struct source *source;
	struct base base;
	struct set_host host;
};

static void host_run(struct hub_call *call)
{
	struct start *start = (struct start *)call;

	template_set_host(start->w->core, start->engine, &start->base, &start->host);
	hub_call_end(call, 0);
}

static void start_run(struct hub_call *call)
{
	struct sandbox_waiter *w = (struct sandbox_waiter *)call;

	sandbox_create_from(w->core, w, w->source);
}

static void unref_run(struct hub_call *call)
{
	source_unref(((struct start *)call)->source);
	hub_call_end(call, 0);
}

static int source_open(struct start *start, const char *id, struct fault *f)
{
	struct core *c = start->w->core;
	char path[SET_PATH_MAX];
	struct set set;
	int err;

	life_snapshot_path(c, id, path);
	if (!set_base(path, &start->base))
		return fault_set(f, EUCLEAN, 500, "snapshot_damaged",
				 "The files of the snapshot %.40s are missing or damaged.", id);
	hub_call(c->hub, &start->call, host_run);
	err = set_open(path, NULL, &start->host, &set, f);
	template_host_close(&start->host);
	if (err < 0)
		return err;
	start->source = source_new(start->engine, &set, "snapshot", false);
	if (!start->source) {
		set_close(&set);
		return fault_no_memory(f);
	}
	return 0;
}

/* What the caller asks for on top of what was saved. */
static void spec_from(struct sandbox_spec *spec, json_t *row, json_t *env)
{
	snprintf(spec->template_name, sizeof(spec->template_name), "%s",
		 json_string_value(json_object_get(row, "template")) ?: "");
	limits_read(&spec->limits, json_object_get(row, "limits"));
	json_object_update(env, json_object_get(row, "env"));
	json_object_update(env, spec->env);
	spec->env = env;
}

static int snapshot_engine(const struct core *c, const char *name, struct engine **ret, struct fault *f)
{
	struct engine *e = engines_named(c, name, f);

	if (!e)
		return -EINVAL;
	if (!engine_ops_of(e)->saves)
		return fault_set(f, ENOTSUP, 409, "not_supported",
				 "The engine %s starts nothing from a snapshot: it keeps no copy of a sandbox's memory.",
				 engine_ops_of(e)->name);
	*ret = e;
	return 0;
}

int core_snapshot_start(struct core *c, struct sandbox_waiter *w, struct fault *f)
{
	struct start start = { .w = w };
	struct sandbox_spec spec = *w->spec;
	json_t *row = NULL, *env;
	int err = snapshot_row(c, w->owner, spec.snapshot, &row, f);

	if (!err)
		err = snapshot_engine(c, spec.engine, &start.engine, f);
	if (!err)
		err = source_open(&start, spec.snapshot, f);
	if (err < 0) {
		json_decref(row);
		return err;
	}
	env = json_object();
	spec_from(&spec, row, env);
	w->spec = &spec;
	w->source = start.source;
	err = hub_call(c->hub, &w->call, start_run);
	hub_call(c->hub, &start.call, unref_run);
	json_decref(env);
	json_decref(row);
	if (err < 0)
		*f = w->call.fault;
	return err;
}
