/* After a restart: kernels of the agent that no row speaks of. Whoever asked for
 * one was cut off before it had a row, so nobody knows its id: it is deleted. */
#include <string.h>

#include "buf.h"
#include "kernel.h"

static void ignore_answer(int err, int status, json_t *reply, void *arg)
{
	(void)err;
	(void)status;
	(void)reply;
	(void)arg;
}

/* Default kernels have ids of their own, under which they are found when they are needed. */
static bool is_nobodys(const struct sandbox *sb, const char *agent_id)
{
	const struct kernel *k;

	for (k = sb->kernels; k; k = k->next) {
		if (strcmp(k->agent_id, agent_id) == 0)
			return false;
	}
	return strncmp(agent_id, KERNEL_DEFAULT_ID, strlen(KERNEL_DEFAULT_ID)) != 0;
}

static void kernel_forget(struct sandbox *sb, const char *agent_id)
{
	__attribute__((cleanup(buf_free))) struct buf path = { 0 };

	core_log("kernel %.64s of sandbox %s has no row: it is deleted", agent_id, sb->id);
	buf_add_str(&path, "/kernels/");
	buf_add_url(&path, agent_id);
	if (!path.failed)
		guest_call(sb->guest, "DELETE", path.bytes, NULL, GUEST_CALL_MS, ignore_answer, NULL);
}

static void on_listed(int err, int status, json_t *reply, void *arg)
{
	struct sandbox *sb = arg;
	json_t *one;
	size_t i;

	/* Cut: the next link_up() asks again. */
	if (err < 0 || status != 200 || sb->state != SANDBOX_RUNNING)
		return;
	sb->kernels_unswept = false;
	json_array_foreach(json_object_get(reply, "kernels"), i, one)
	{
		const char *agent_id = json_string_value(json_object_get(one, "id"));

		if (agent_id && is_nobodys(sb, agent_id))
			kernel_forget(sb, agent_id);
	}
}

void kernels_sweep(struct sandbox *sb)
{
	if (sb->kernels_unswept)
		guest_call(sb->guest, "GET", "/kernels", NULL, GUEST_CALL_MS, on_listed, sb);
}
