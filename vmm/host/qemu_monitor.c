/* A machine's way up over QEMU's monitor: it is connected; a clone loads its
 * device state (x-ignore-shared: its memory is there already) and continues.
 * An adopted machine tells how it is. What it does once it is up: qemu_save.c. */
#include "engine_inner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vmm/jail/keeper_proto.h"

/* -EPIPE is followed by closed(), which says it once for all. */
#define DONE_CHECK(what)                           \
	do {                                       \
		if (err == -EPIPE)                 \
			return;                    \
		if (err) {                         \
			vm_failed(vm, what, message); \
			return;                    \
		}                                  \
	} while (0)

static void continued(int err, const json_t *value, const char *message, void *arg)
{
	struct vm *vm = arg;

	(void)value;
	DONE_CHECK("run the virtual machine");
	vm_up(vm);
}

static void incoming_begun(int err, const json_t *value, const char *message, void *arg)
{
	struct vm *vm = arg;

	(void)value;
	DONE_CHECK("load the snapshot");
}

static void incoming_ready(int err, const json_t *value, const char *message, void *arg)
{
	struct vm *vm = arg;
	char uri[32];

	(void)value;
	DONE_CHECK("prepare for the snapshot");
	snprintf(uri, sizeof(uri), "fd:%d", KEEPER_FD_FILES + SPAWN_FD_STATE);
	vm_ask(vm, "migrate-incoming", json_pack("{s:s}", "uri", uri), -1, incoming_begun);
}

json_t *vm_capabilities(void)
{
	return json_pack("{s:[{s:s,s:b},{s:s,s:b}]}", "capabilities", "capability", "x-ignore-shared",
			 "state", 1, "capability", "events", "state", 1);
}

static enum vm_run run_of(const char *status)
{
	if (strcmp(status, "paused") == 0)
		return VM_PAUSED;
	return strcmp(status, "postmigrate") == 0 || strcmp(status, "finish-migrate") == 0 ? VM_SAVED
											   : VM_RUNS;
}

static void status_known(int err, const json_t *value, const char *message, void *arg)
{
	struct vm *vm = arg;
	const char *status = json_string_value(json_object_get(value, "status"));

	DONE_CHECK("tell its state");
	vm->run = run_of(status ? status : "");
	if (status && strcmp(status, "inmigrate") == 0)
		vm_abort(vm, "host-restart", "The sandbox had not started when Carrel was restarted.");
	else if (!status || strcmp(status, "finish-migrate") != 0)
		vm_up(vm);
	/* A save that outlived its carreld: its end is an event. */
}

static void monitor_ready(void *arg)
{
	struct vm *vm = arg;

	if (spawn_mode_clones(vm->mode) && !vm->adopted)
		vm_ask(vm, "migrate-set-capabilities", vm_capabilities(), -1, incoming_ready);
	else
		vm_ask(vm, "query-status", NULL, -1, status_known);
}

static void error_known(int err, const json_t *value, const char *message, void *arg)
{
	struct vm *vm = arg;
	const char *desc = json_string_value(json_object_get(value, "error-desc"));

	if (err != -EPIPE && vm->task == TASK_SAVE)
		vm_task_finish(vm, -EIO,
			       desc  ? desc
			       : err ? message
				     : "QEMU could not save the device state.");
}

static void migration_event(struct vm *vm, const char *status)
{
	bool over = strcmp(status, "completed") == 0, bad = strcmp(status, "failed") == 0;

	if (vm->task == TASK_SAVE && over)
		vm_state_saved(vm);
	else if (vm->task == TASK_SAVE && bad)
		vm_ask(vm, "query-migrate", NULL, -1, error_known);
	else if (vm->state == VM_OPENING && vm->adopted && (over || bad))
		vm_ask(vm, "query-status", NULL, -1, status_known);
	else if (vm->state == VM_OPENING && over)
		vm_ask(vm, "cont", NULL, -1, continued);
	/* A clone whose state does not load ends by itself; its last words are in qemu.log. */
}

static void monitor_event(const char *name, const json_t *data, void *arg)
{
	struct vm *vm = arg;
	const char *status = json_string_value(json_object_get(data, "status"));
	const char *reason = json_string_value(json_object_get(data, "reason"));

	if (strcmp(name, "MIGRATION") == 0 && status)
		migration_event(vm, status);
	if (strcmp(name, "SHUTDOWN") == 0 && reason && !vm->message[0])
		snprintf(vm->message, sizeof(vm->message), "The guest ended by itself (%s).",
			 strcmp(reason, "guest-reset") == 0      ? "reset or kernel panic"
			 : strcmp(reason, "guest-shutdown") == 0 ? "power off"
								 : "shutdown");
}

static void monitor_closed(int err, const char *message, void *arg)
{
	vm_monitor_lost(arg, err, message);
}

static const struct qmp_ops monitor_ops = { monitor_ready, monitor_event, monitor_closed };

void vm_ask(struct vm *vm, const char *command, json_t *arguments, int fd, qmp_done done)
{
	int err = vm->qmp ? qmp_execute(vm->qmp, command, arguments, fd, done, vm) : -EPIPE;

	if (!vm->qmp)
		json_decref(arguments);
	if (err)
		done(err == -EPIPE ? -EIO : err, NULL, "its monitor is gone", vm);
}

static void qemu_open(struct vm *vm)
{
	int err = qmp_new(vm->engine->loop, vm->monitor_path, &monitor_ops, vm, &vm->qmp);

	if (err)
		vm_failed(vm, "be reached", strerror(-err));
}

static void qemu_close(struct vm *vm)
{
	qmp_free(vm->qmp);
	vm->qmp = NULL;
}

/* What the mode does not use stays at home. */
static int qemu_prepare(struct vm *vm, const struct vm_config *c, int *ret_fds, unsigned *ret_n, uint32_t *ret_mask)
{
	const bool clones = spawn_mode_clones(c->mode);
	const int all[SPAWN_FD_COUNT] = {
		[SPAWN_FD_RAM] = c->ram_fd,
		[SPAWN_FD_STATE] = clones ? c->state_fd : -1,
		[SPAWN_FD_ROOTFS] = c->rootfs_fd,
		[SPAWN_FD_SCRATCH] = c->scratch_fd,
		[SPAWN_FD_KERNEL] = clones ? -1 : c->kernel_fd,
		[SPAWN_FD_INITRD] = clones ? -1 : c->initrd_fd,
		[SPAWN_FD_PAGES] = c->mode == VM_RESUME ? c->pages_fd : -1,
		[SPAWN_FD_GUEST] = -1,
	};

	(void)vm;
	*ret_n = 0;
	*ret_mask = 0;
	for (int i = 0; i < SPAWN_FD_COUNT; i++)
		if (all[i] >= 0) {
			ret_fds[(*ret_n)++] = all[i];
			*ret_mask |= 1u << i;
		}
	return 0;
}

const struct monitor_ops monitor_qemu = {
	.name = "QEMU",
	.socket = "qmp.sock",
	.prepare = qemu_prepare,
	.open = qemu_open,
	.go = qemu_go,
	.close = qemu_close,
};
