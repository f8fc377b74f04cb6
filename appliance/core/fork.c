/* The copies of a fork: each is a sandbox of its own, started from the one set that
 * was saved, and fails by itself. The operation is over when all of them run or failed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "instant.h"
#include "life.h"
#include "source.h"

struct copy {
	struct sandbox_waiter waiter;
	struct copies *all;
	json_t *result; /* the sandbox, or {"error":…} */
};

struct copies {
	struct core *core;
	struct sandbox *original; /* NULL: it ended; so do the copies */
	unsigned count, left;
	struct sandbox_spec spec;
	char owner[STORE_ID_MAX];
	struct copy each[LIFE_COPIES_MAX];
};

static void copies_free(struct copies *all)
{
	for (unsigned i = 0; i < all->count; i++)
		json_decref(all->each[i].result);
	json_decref(all->spec.env);
	json_decref(all->spec.metadata);
	free(all);
}

static void copies_done(struct copies *all)
{
	struct sandbox *sb = all->original;
	json_t *list = json_array();

	if (!sb) {
		json_decref(list);
		copies_free(all);
		return;
	}
	for (unsigned i = 0; i < all->count; i++)
		json_array_append(list, all->each[i].result);
	sb->life->copies = NULL;
	sb->life->op->result = json_pack("{s:o}", "sandboxes", list);
	copies_free(all);
	copy_made(sb, 0, NULL);
}

static void copy_end_sandbox(struct core *c, json_t *sandbox)
{
	const char *id = json_string_value(json_object_get(sandbox, "id"));
	struct sandbox *sb = id ? sandbox_find(c, NULL, id) : NULL;

	if (sb)
		sandbox_end(sb, REASON_ASKED, "What it was a copy of ended while it was made.");
}

static void on_copy(struct sandbox_waiter *w, int err)
{
	struct copy *copy = (struct copy *)w;
	struct copies *all = copy->all;
	const struct fault *f = &w->call.fault;

	if (err < 0) {
		copy->result = json_pack("{s:{s:s,s:s}}", "error", "code", f->code, "message", f->message);
		json_decref(w->result);
	} else {
		copy->result = w->result;
		tally_add(&all->core->lives, "forked");
	}
	w->result = NULL;
	if (!all->original)
		copy_end_sandbox(all->core, copy->result);
	if (--all->left == 0)
		copies_done(all);
}

void fork_cancel(struct sandbox *sb)
{
	struct copies *all = sb->life->copies;

	if (!all)
		return;
	sb->life->copies = NULL;
	all->original = NULL;
	for (unsigned i = 0; i < all->count; i++)
		copy_end_sandbox(all->core, all->each[i].result);
}

static struct copies *copies_new(struct sandbox *sb)
{
	const struct life_op *op = sb->life->op;
	struct copies *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	*all = (struct copies){ .core = sb->core, .original = sb, .count = op->count, .left = op->count + 1 };
	snprintf(all->owner, sizeof(all->owner), "%s", sb->owner);
	all->spec = (struct sandbox_spec){ .timeout_s = op->timeout_s ? op->timeout_s : sb->timeout_s,
					   .limits = sb->limits,
					   .env = json_incref(sb->env),
					   .metadata = json_incref(sb->metadata),
					   .pause_on_timeout = sb->pause_on_timeout,
					   .auto_resume = sb->auto_resume };
	snprintf(all->spec.template_name, sizeof(all->spec.template_name), "%s", sb->template_name);
	for (unsigned i = 0; i < all->count; i++) {
		all->each[i].all = all;
		all->each[i].waiter = (struct sandbox_waiter){ .core = sb->core,
							       .owner = all->owner,
							       .spec = &all->spec,
							       .quota = op->quota,
							       .done = on_copy };
		memcpy(all->each[i].waiter.call.by, op->call.by, sizeof(op->call.by));
	}
	return all;
}

void fork_launch(struct sandbox *sb)
{
	struct life *l = sb->life;
	struct source *source = source_new(sb->engine, &l->set, "fork", l->making);
	struct copies *all = source ? copies_new(sb) : NULL;
	struct fault f;
	int err;

	if (!all) {
		if (source)
			source->temporary = false;
		free(source);
		err = fault_no_memory(&f);
		copy_made(sb, err, &f);
		return;
	}
	l->set = (struct set)SET_NONE;
	l->making = false;
	l->copies = all;
	for (unsigned i = 0; i < all->count; i++)
		sandbox_create_from(sb->core, &all->each[i].waiter, source);
	source_unref(source);
	instant(INSTANT_FORK_ADMITTED);
	if (--all->left == 0)
		copies_done(all);
}
