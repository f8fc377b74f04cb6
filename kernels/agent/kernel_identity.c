#include <signal.h>

#include "agent.h"
#include "base64.h"
#include "kernel.h"
#include "link/channel.h"
#include "spec.h"
#include "util.h"

/* A kernel from elsewhere knows no such request. On another machine (a clone) it is
 * replaced; on the same one (a resume) it stays as it is. */
static void replace_elsewhere(struct kernel *k, bool other_machine)
{
	if (!other_machine || (k->phase != KERNEL_ALIVE && k->phase != KERNEL_STARTING))
		return;
	k->wish = KERNEL_WISH_RESTART;
	kill(-k->pid, SIGKILL);
	kill(k->pid, SIGKILL);
}

bool kernel_identity(struct kernel *k, bool other_machine, void (*done)(void *arg, const char *message),
		     void *arg)
{
	cleanup_free char *entropy = base64_random(64);
	json_t *env = k->agent->env ? json_incref(k->agent->env) : json_object();
	json_t *content;

	if (k->phase == KERNEL_FORKING)
		k->reseed_due = true;
	if (!k->spec->core)
		replace_elsewhere(k, other_machine);
	if (k->identity_sent)
		k->reseed_due = true;
	if (!k->spec->core || k->identity_sent ||
	    (k->phase != KERNEL_ALIVE && k->phase != KERNEL_STARTING)) {
		json_decref(env);
		return false;
	}
	content = json_pack("{s:s, s:o}", "entropy", entropy, "env", env);
	if (!content || jupyter_request(k->jupyter, WIRE_SHELL, "carrel_identity_request", content) < 0)
		return false;
	/* What comes next is for the new identity. */
	kernel_channel_hold(k);
	k->identity_sent = true;
	/* A busy kernel takes it when its cell is over, before anything else. */
	if (k->busy || !done)
		return false;
	k->identity_done = done;
	k->identity_arg = arg;
	return true;
}

bool kernel_identity_waits(struct kernel *k)
{
	k->identity_late = k->spec->core && k->phase == KERNEL_ALIVE && !k->handed;
	return k->identity_late;
}

void kernel_identity_late(struct kernel *k)
{
	if (!k->identity_late)
		return;
	k->identity_late = false;
	kernel_identity(k, false, NULL, NULL);
}

void kernel_identity_end(struct kernel *k, const char *message)
{
	void (*done)(void *arg, const char *message) = k->identity_done;

	k->identity_done = NULL;
	if (done)
		done(k->identity_arg, message);
}

void kernel_identity_answered(struct kernel *k, const struct wire_message *m)
{
	bool ok = wire_is(wire_field(m->part[WIRE_CONTENT], "status"), "ok");

	if (!k->identity_sent)
		return;
	k->identity_sent = false;
	kernel_identity_end(k, ok ? NULL : "a kernel could not take the new identity");
	if (k->reseed_due) {
		k->reseed_due = false;
		kernel_identity(k, false, NULL, NULL);
	}
	kernel_channel_flush(k);
}
