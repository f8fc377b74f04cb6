/* A machine of the engine jail has no monitor: carrel-spawn's freezer stops it and
 * lets it go on, and its keeper tells of its end. */
#include <errno.h>
#include <stdio.h>

#include "engine_inner.h"

static int jail_prepare(struct vm *vm, const struct vm_config *c, int *ret_fds, unsigned *ret_n, uint32_t *ret_mask)
{
	const int fds[SPAWN_FD_COUNT] = { [SPAWN_FD_RAM] = -1,
					  [SPAWN_FD_STATE] = -1,
					  [SPAWN_FD_ROOTFS] = c->rootfs_fd,
					  [SPAWN_FD_SCRATCH] = c->scratch_fd,
					  [SPAWN_FD_KERNEL] = -1,
					  [SPAWN_FD_INITRD] = -1,
					  [SPAWN_FD_PAGES] = -1,
					  [SPAWN_FD_GUEST] = c->guest_fd };

	(void)vm;
	if (c->mode != VM_BOOT)
		return -ENOTSUP;
	*ret_n = 0;
	*ret_mask = 0;
	for (int i = 0; i < SPAWN_FD_COUNT; i++) {
		if (fds[i] < 0)
			continue;
		ret_fds[(*ret_n)++] = fds[i];
		*ret_mask |= 1u << i;
	}
	return 0;
}

/* Its keeper has seen the agent executed, and the socket listens. One that was adopted may stand still. */
static void jail_open(struct vm *vm)
{
	vm_up(vm);
}

static int jail_go(struct vm *vm)
{
	int err = vm_send(vm, vm->task == TASK_PAUSE ? SPAWN_FREEZE : SPAWN_THAW);

	/* It is said again once carrel-spawn is back. */
	return err == -ENOTCONN ? 0 : err;
}

void vm_freezer_replied(struct vm *vm, const struct spawn_reply *reply)
{
	const uint32_t asked = vm->task == TASK_PAUSE ? SPAWN_FREEZE : SPAWN_THAW;

	if (!vm->monitor->freezes || reply->verb != asked)
		return;
	vm_task_done(vm, reply->error, reply->message);
}

static void jail_close(struct vm *vm)
{
	(void)vm;
}

const struct monitor_ops monitor_jail = {
	.name = "The sandbox's agent",
	.socket = "agent.sock",
	.freezes = true,
	.prepare = jail_prepare,
	.open = jail_open,
	.go = jail_go,
	.close = jail_close,
};
