/* The kernels of a sandbox: which there are, which one is meant, how they are shown. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "link/limits.h"

const char *kernel_language(const struct image *image, const char *language)
{
	json_t *languages = json_object_get(image->recipe, "languages"), *one;
	const char *first = json_string_value(json_array_get(languages, 0));
	size_t i;

	if (!language)
		return first ? first : "python";
	json_array_foreach(languages, i, one)
	{
		const char *text = json_string_value(one);

		if (text && strcmp(text, language) == 0)
			return text;
	}
	return !first && strcmp(language, "python") == 0 ? "python" : NULL;
}

const char *kernel_language_at(const struct image *image, size_t i)
{
	const char *text = json_string_value(json_array_get(json_object_get(image->recipe, "languages"), i));

	return text || i > 0 ? text : kernel_language(image, NULL);
}

void kernel_default_agent_id(const struct image *image, const char *language, char ret[STORE_ID_MAX])
{
	if (strcmp(language, kernel_language(image, NULL)) == 0)
		snprintf(ret, STORE_ID_MAX, "%s", KERNEL_DEFAULT_ID);
	else
		snprintf(ret, STORE_ID_MAX, "%s-%.24s", KERNEL_DEFAULT_ID, language);
}

void kernel_default_ids(const struct sandbox *sb, const char *language, char ret_id[STORE_ID_MAX],
			char ret_agent_id[STORE_ID_MAX])
{
	char name[2 * STORE_ID_MAX];

	kernel_default_agent_id(sb->from, language, ret_agent_id);
	snprintf(name, sizeof(name), "%s/%s", sb->id, ret_agent_id);
	uuid_of(name, ret_id);
}

int kernel_default(struct sandbox *sb, const char *language, struct kernel **ret, struct fault *f)
{
	char id[STORE_ID_MAX], agent_id[STORE_ID_MAX];
	struct kernel *k;

	kernel_default_ids(sb, language, id, agent_id);
	for (k = sb->kernels; k; k = k->next) {
		if (strcmp(k->id, id) == 0)
			break;
	}
	if (k && k->stopping)
		return fault_set(f, EBUSY, 409, "wrong_state",
				 "The default kernel is being deleted; try again in a moment.");
	*ret = k;
	return 0;
}

int kernel_room(const struct sandbox *sb, struct fault *f)
{
	const struct kernel *k;
	unsigned n = 0;

	for (k = sb->kernels; k; k = k->next)
		n++;
	if (n < AGENT_KERNELS_MAX)
		return 0;
	fault_set(f, EAGAIN, 429, "limit", "A sandbox has at most %d kernels; delete one.",
		  AGENT_KERNELS_MAX);
	f->retry_after_s = 1;
	return -EAGAIN;
}

int kernel_default_start(struct sandbox *sb, const char *language, struct kernel **ret, struct fault *f)
{
	char id[STORE_ID_MAX], agent_id[STORE_ID_MAX];
	struct kernel *k;

	kernel_default_ids(sb, language, id, agent_id);
	k = kernel_new(sb, id, agent_id, language, false);
	if (!k)
		return fault_set(f, ENOMEM, 503, "capacity", "Out of memory on the host; try again.");
	kernel_link_up(k);
	*ret = k;
	return 0;
}

static const char *kernel_state_shown(const struct kernel *k)
{
	if (k->state == KERNEL_DEAD)
		return "dead";
	if (!k->exists || k->restarting || k->restart_wanted || k->state == KERNEL_STARTING)
		return "starting";
	/* Requests that are no cell (a cell's environment) are nobody's business. */
	return k->running ? "busy" : "idle";
}

json_t *kernel_json(const struct kernel *k)
{
	json_t *queue = json_array();
	const struct execution *e;

	for (e = k->queue; e; e = e->next)
		json_array_append_new(queue, json_string(e->id));
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:o}", "id", k->id, "sandbox_id", k->sandbox->id, "name",
			 k->name, "language", k->language, "state", kernel_state_shown(k), "execution_count",
			 (json_int_t)k->execution_count, "queue", queue);
}

/* --- the calls --- */

static struct kernel *kernel_of(const struct kernel_waiter *w, struct fault *f)
{
	struct kernel *k = kernel_of_owner(w->core, w->owner, w->id);

	if (!k) {
		fault_set(f, ENOENT, 404, "not_found", "There is no such kernel.");
		return NULL;
	}
	return sandbox_usable(w->core, w->owner, k->sandbox->id, f) ? k : NULL;
}

static int cursor_skip(const struct kernel_waiter *w, struct kernel **at, struct fault *f)
{
	struct kernel *k;

	if (!w->cursor || !*w->cursor)
		return 0;
	for (k = *at; k && strcmp(k->id, w->cursor) != 0; k = k->next)
		;
	if (!k)
		return fault_field(f, "bad_cursor", "cursor",
				   "cursor must be what an earlier list answered as next.");
	*at = k->next;
	return 0;
}

static void list_run(struct hub_call *call)
{
	struct kernel_waiter *w = (struct kernel_waiter *)call;
	struct sandbox *sb = sandbox_find(w->core, w->owner, w->sandbox_id);
	struct kernel *k = sb ? sb->kernels : NULL;
	const char *last = NULL;
	json_t *list;
	unsigned n = 0;
	int err;

	if (!sb) {
		hub_call_end(call,
			     fault_set(&call->fault, ENOENT, 404, "not_found", "There is no such sandbox."));
		return;
	}
	err = cursor_skip(w, &k, &call->fault);
	if (err < 0) {
		hub_call_end(call, err);
		return;
	}
	list = json_array();
	for (; k && n < w->limit; k = k->next) {
		if (k->stopping)
			continue;
		json_array_append_new(list, kernel_json(k));
		last = k->id;
		n++;
	}
	w->result = json_pack("{s:o,s:s?}", "kernels", list, "next", k ? last : NULL);
	hub_call_end(call, w->result ? 0 : fault_no_memory(&call->fault));
}

int core_kernel_list(struct core *c, const char *owner, const char *sandbox_id, unsigned limit,
		     const char *cursor, json_t **ret, struct fault *f)
{
	struct kernel_waiter w = {
		.core = c, .owner = owner, .sandbox_id = sandbox_id, .limit = limit, .cursor = cursor
	};
	int err = hub_call(c->hub, &w.call, list_run);
	json_t *row;

	/* One that has ended has none. */
	if (err == -ENOENT && store_sandbox_get(c->store, owner, sandbox_id, &row) == 0) {
		json_decref(row);
		w.result = json_pack("{s:[],s:n}", "kernels", "next");
		err = w.result ? 0 : fault_no_memory(&w.call.fault);
	}
	if (err < 0) {
		*f = w.call.fault;
		return err;
	}
	*ret = w.result;
	return 0;
}

static struct kernel *kernel_from_spec(struct sandbox *sb, const struct kernel_spec *spec)
{
	const char *language = spec->name ? spec->name : kernel_language(sb->from, spec->language);
	char id[UUID_SIZE];
	struct kernel *k;

	uuid_new(id);
	k = kernel_new(sb, id, id, language, false);
	if (!k)
		return NULL;
	k->by_name = spec->name != NULL;
	k->cwd = spec->cwd ? strdup(spec->cwd) : NULL;
	return k;
}

static void create_run(struct hub_call *call)
{
	struct kernel_waiter *w = (struct kernel_waiter *)call;
	struct sandbox *sb = sandbox_usable(w->core, w->owner, w->sandbox_id, &call->fault);
	const struct kernel_spec *spec = w->spec;
	struct kernel *k;
	int err;

	err = sb ? kernel_room(sb, &call->fault) : -ENOENT;
	if (!err && spec->language && !kernel_language(sb->from, spec->language))
		err = fault_field(&call->fault, "unknown_language", "language",
				  "This template has no kernel for \"%.32s\".", spec->language);
	if (err < 0) {
		hub_call_end(call, err);
		return;
	}
	k = kernel_from_spec(sb, spec);
	if (!k) {
		hub_call_end(call, fault_no_memory(&call->fault));
		return;
	}
	kernel_wait(k, KERNEL_WAIT_START, w);
	kernel_link_up(k);
}

int core_kernel_create(struct core *c, const char *owner, const char *sandbox_id,
		       const struct kernel_spec *spec, json_t **ret, struct fault *f)
{
	struct kernel_waiter w = { .core = c, .owner = owner, .sandbox_id = sandbox_id, .spec = spec };
	int err;

	do
		err = hub_call(c->hub, &w.call, create_run);
	while (err < 0 && core_settle(c, owner, sandbox_id, NULL, true, &w.call.fault));
	if (err < 0) {
		json_decref(w.result);
		*f = w.call.fault;
		return refine_missing(c, owner, sandbox_id, err, f);
	}
	*ret = w.result;
	return 0;
}

static void restart_run(struct hub_call *call)
{
	struct kernel_waiter *w = (struct kernel_waiter *)call;
	struct kernel *k = kernel_of(w, &call->fault);

	if (!k) {
		hub_call_end(call, -ENOENT);
	} else if (!k->exists) {
		hub_call_end(call, fault_set(&call->fault, EBUSY, 409, "wrong_state",
					     "The kernel is being started; there is nothing to restart."));
	} else {
		kernel_wait(k, KERNEL_WAIT_RESTART, w);
		kernel_restart_wanted(k);
	}
}

int core_kernel_restart(struct core *c, const char *owner, const char *id, json_t **ret, struct fault *f)
{
	struct kernel_waiter w = { .core = c, .owner = owner, .id = id };
	int err;

	do
		err = hub_call(c->hub, &w.call, restart_run);
	while (err < 0 && core_settle(c, owner, NULL, id, true, &w.call.fault));
	if (err < 0) {
		json_decref(w.result);
		*f = w.call.fault;
		return err;
	}
	*ret = w.result;
	return 0;
}

static void interrupt_run(struct hub_call *call)
{
	struct kernel_waiter *w = (struct kernel_waiter *)call;
	struct kernel *k = kernel_of(w, &call->fault);

	if (k && k->running)
		execution_interrupt(k->running);
	hub_call_end(call, k ? 0 : -ENOENT);
}

int core_kernel_interrupt(struct core *c, const char *owner, const char *id, struct fault *f)
{
	struct kernel_waiter w = { .core = c, .owner = owner, .id = id };
	int err;

	do
		err = hub_call(c->hub, &w.call, interrupt_run);
	while (err < 0 && core_settle(c, owner, NULL, id, true, &w.call.fault));
	if (err < 0)
		*f = w.call.fault;
	return err;
}

static void delete_run(struct hub_call *call)
{
	struct kernel_waiter *w = (struct kernel_waiter *)call;
	struct kernel *k = kernel_of(w, &call->fault);

	if (!k) {
		hub_call_end(call, -ENOENT);
		return;
	}
	kernel_wait(k, KERNEL_WAIT_GONE, w);
	kernel_delete(k);
}

int core_kernel_delete(struct core *c, const char *owner, const char *id, struct fault *f)
{
	struct kernel_waiter w = { .core = c, .owner = owner, .id = id };
	int err;

	do
		err = hub_call(c->hub, &w.call, delete_run);
	while (err < 0 && core_settle(c, owner, NULL, id, true, &w.call.fault));
	if (err < 0)
		*f = w.call.fault;
	return err;
}
