/* The kernels that a sandbox has from the start: those of its snapshot, or of what it is a copy of. */
#include <string.h>

#include "kernel.h"
#include "life.h"
#include "source.h"

/* What the agent says of one that was in the snapshot: a kernel from elsewhere is replaced in a clone, and takes
 * code once the next one is there. */
static void kernel_taken_over(struct kernel *k, json_t *kernels)
{
	json_t *one;
	size_t i;

	json_array_foreach(kernels, i, one)
	{
		const char *id = json_string_value(json_object_get(one, "id"));
		const char *state = json_string_value(json_object_get(one, "state"));

		if (!id || !state || strcmp(id, k->agent_id) != 0 || strcmp(state, "starting") != 0)
			continue;
		k->state = KERNEL_STARTING;
		k->alive_due = true;
		k->generation = (uint64_t)json_integer_value(json_object_get(one, "generation")) + 1;
	}
	kernel_named(k, kernels);
}

/* Kernels that the template's own code ran in: they are there, and have said something. */
static bool warm_kernels(struct sandbox *sb, json_t *kernels)
{
	char id[STORE_ID_MAX], agent_id[STORE_ID_MAX];

	for (unsigned i = 0; i < sb->warm_count; i++) {
		const struct snapshot_channel *c = &sb->warm[i];
		struct kernel *k;

		kernel_default_ids(sb, c->language, id, agent_id);
		k = kernel_new(sb, id, agent_id, c->language, true);
		if (!k)
			return false;
		kernel_taken_over(k, kernels);
		channel_restore(k->channel, c->received, c->sent);
	}
	return true;
}

bool sandbox_first_kernels(struct sandbox *sb, json_t *kernels)
{
	char id[STORE_ID_MAX], agent_id[STORE_ID_MAX];
	const char *language = kernel_language(sb->from, NULL);
	struct kernel *k;

	if (sb->source)
		return inside_restore(sb, sb->source->set.inside);
	kernel_default_ids(sb, language, id, agent_id);
	k = kernel_new(sb, id, agent_id, language, sb->template != NULL);
	if (!k)
		return false;
	k->essential = !sb->template;
	if (!sb->template) {
		kernel_named(k, kernels);
		return true;
	}
	kernel_taken_over(k, kernels);
	channel_restore(k->channel, sb->channel_received, sb->channel_sent);
	return warm_kernels(sb, kernels);
}
