/* The public calls of the Jupyter face on kernels, wherever they run. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "kernel.h"
#include "times.h"

static const char *state_shown(const struct kernel *k)
{
	if (k->state == KERNEL_DEAD)
		return "dead";
	if (k->restarting || k->restart_wanted)
		return "restarting";
	if (!k->exists || k->state == KERNEL_STARTING)
		return "starting";
	return k->running ? "busy" : "idle";
}

static json_t *model(const struct kernel *k)
{
	char time[TIME_SIZE];

	time_format(k->activity_ms ? k->activity_ms : k->sandbox->created_ms, time);
	return json_pack("{s:s,s:s,s:s,s:s,s:i,s:s}", "id", k->id, "name", k->name, "last_activity", time,
			 "execution_state", state_shown(k), "connections", (int)clients_connected(k),
			 "sandbox_id", k->sandbox->id);
}

struct models_call {
	struct hub_call call;
	struct core *core;
	const char *owner, *id;
	json_t *result;
	char sandbox_id[STORE_ID_MAX];
	bool own_sandbox;
};

static void models_run(struct hub_call *call)
{
	struct models_call *m = (struct models_call *)call;
	struct sandbox *sb;
	struct kernel *k;

	m->result = m->id ? NULL : json_array();
	for (sb = m->core->sandboxes; sb; sb = sb->next) {
		if (strcmp(sb->owner, m->owner) != 0)
			continue;
		for (k = sb->kernels; k; k = k->next) {
			if (k->stopping || (m->id && strcmp(k->id, m->id) != 0))
				continue;
			if (!m->id) {
				json_array_append_new(m->result, model(k));
				continue;
			}
			m->result = model(k);
			memcpy(m->sandbox_id, sb->id, sizeof(m->sandbox_id));
			m->own_sandbox = json_object_get(sb->metadata, "jupyter") != NULL;
		}
	}
	hub_call_end(call, m->result ? 0
				     : fault_set(&call->fault, ENOENT, 404, "not_found",
						 "There is no such kernel."));
}

int core_jupyter_kernels(struct core *c, const char *owner, const char *id, json_t **ret, struct fault *f)
{
	struct models_call m = { .core = c, .owner = owner, .id = id };
	int err = hub_call(c->hub, &m.call, models_run);

	if (err < 0) {
		*f = m.call.fault;
		return err;
	}
	*ret = m.result;
	return 0;
}

int core_jupyter_kernel_delete(struct core *c, const char *owner, const char *id, struct fault *f)
{
	struct models_call m = { .core = c, .owner = owner, .id = id };
	int err = hub_call(c->hub, &m.call, models_run);

	if (err < 0) {
		*f = m.call.fault;
		return err;
	}
	json_decref(m.result);
	return m.own_sandbox ? core_sandbox_delete(c, owner, m.sandbox_id, f)
			     : core_kernel_delete(c, owner, id, f);
}
