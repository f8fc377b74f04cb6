/* What the host knows of the kernels and processes in a machine: told on to its
 * copies, and held while it stands still. */
#include "life.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel.h"
#include "link/limits.h"
#include "process.h"

/* --- told on --- */

static json_t *kernel_inside(const struct kernel *k)
{
	return json_pack("{s:s,s:s,s:s,s:b,s:b,s:b,s:I,s:I,s:I,s:I}", "agent_id", k->agent_id, "name", k->name,
			 "language", k->language, "by_name", k->by_name, "restarted", k->restarted, "dead",
			 k->state == KERNEL_DEAD, "generation", (json_int_t)k->generation, "execution_count",
			 (json_int_t)k->execution_count, "received", (json_int_t)k->batch_seq, "sent",
			 (json_int_t)channel_sent(k->channel));
}

json_t *inside_json(const struct sandbox *sb)
{
	json_t *kernels = json_array(), *processes = processes_ids(sb);
	const struct kernel *k;

	/* One that is being made or deleted belongs to the original: in a copy it is nobody's, and swept. */
	for (k = sb->kernels; k; k = k->next) {
		if (k->exists && !k->stopping)
			json_array_append_new(kernels, kernel_inside(k));
	}
	return json_pack("{s:o,s:o}", "kernels", kernels, "processes", processes);
}

static const char *text_of(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static int64_t number_of(json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* A default kernel keeps its place, the others get ids of their own on this host. */
static void copy_id(const struct sandbox *sb, const char *language, const char *agent_id, char ret[STORE_ID_MAX])
{
	char default_agent_id[STORE_ID_MAX];

	kernel_default_ids(sb, language, ret, default_agent_id);
	if (strcmp(agent_id, default_agent_id) != 0)
		uuid_new(ret);
}

static bool kernel_restore(struct sandbox *sb, json_t *one)
{
	const char *agent_id = text_of(one, "agent_id"), *language = text_of(one, "language");
	char id[STORE_ID_MAX];
	struct kernel *k;

	copy_id(sb, language, agent_id, id);
	k = kernel_new(sb, id, agent_id, language, true);
	if (!k)
		return false;
	snprintf(k->name, sizeof(k->name), "%s", text_of(one, "name"));
	k->by_name = json_is_true(json_object_get(one, "by_name"));
	k->restarted = json_is_true(json_object_get(one, "restarted"));
	if (json_is_true(json_object_get(one, "dead")))
		k->state = KERNEL_DEAD;
	k->generation = (uint64_t)number_of(one, "generation");
	k->execution_count = number_of(one, "execution_count");
	k->restored = true;
	k->restored_sent = (uint64_t)number_of(one, "sent");
	k->batch_seq = k->safe_seq = (uint64_t)number_of(one, "received");
	channel_restore(k->channel, k->batch_seq, k->restored_sent);
	return true;
}

bool inside_restore(struct sandbox *sb, json_t *inside)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(inside, "kernels"), i, one)
	{
		if (i >= AGENT_KERNELS_MAX || !kernel_restore(sb, one))
			return false;
	}
	/* Processes had readers, and those read the original: as after any hang-up they are ended. */
	json_array_foreach(json_object_get(inside, "processes"), i, one)
	{
		if (process_restore(sb, json_string_value(one) ? json_string_value(one) : "") < 0)
			return false;
	}
	sb->kernels_unswept = true;
	return true;
}

/* --- held --- */

void inside_hold(struct sandbox *sb)
{
	struct kernel *k;

	if (sb->held)
		return;
	sb->held = true;
	for (k = sb->kernels; k; k = k->next) {
		if (k->running)
			execution_hold(k->running);
		if (sb->life->op && sb->life->op->verb == LIFE_PAUSE)
			kernel_waiters_paused(k);
	}
	processes_hold(sb);
	guest_hold(sb->guest, true);
}

void inside_release(struct sandbox *sb, int64_t stood_ms)
{
	struct kernel *k;

	if (!sb->held)
		return;
	sb->held = false;
	for (k = sb->kernels; k; k = k->next) {
		if (k->running)
			execution_go_on(k->running, stood_ms);
	}
	processes_go_on(sb, stood_ms);
}

void inside_link_up(struct sandbox *sb)
{
	struct kernel *k, *next;

	for (k = sb->kernels; k && sb->state == SANDBOX_RUNNING; k = next) {
		next = k->next;
		kernel_link_up(k);
	}
	processes_link_up(sb);
	kernels_sweep(sb);
}
