/* A machine's way up over QEMU's monitor: it is connected; a clone loads its
 * device state (x-ignore-shared: its memory is there already) and continues.
 * An adopted machine tells how it is. What it does once it is up: vm_save.c. */
#include "engine_inner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vmm/jail/keeper_proto.h"

static void timer_fired(uv_timer_t *timer)
{
	struct vm *vm = timer->data;

	if (vm->task != TASK_NONE)
		vm_task_finish(vm, -ETIMEDOUT,
			       vm->pages_serial
				       ? "carrel-spawn did not save the memory: it was restarted meanwhile."
				       : "QEMU did not finish in time.");
	else
		vm_abort(vm, "crashed",
			 vm->state == VM_UP ? "QEMU closed its monitor."
					    : "The virtual machine did not start in time.");
}

void vm_timer_start(struct vm *vm, uint64_t ms)
{
	uv_timer_start(&vm->timer, timer_fired, ms, 0);
}

static void up(struct vm *vm)
{
	vm->state = VM_UP;
	uv_timer_stop(&vm->timer);
	if (vm->deadline_late)
		vm_send(vm, SPAWN_DEADLINE);
	if (!vm->stopping)
		vm->ops->started(vm, vm->agent_path, vm->arg);
}

static void failed(struct vm *vm, const char *what, const char *message)
{
	char text[SPAWN_MESSAGE_MAX];

	snprintf(text, sizeof(text), "QEMU cannot %s: %.160s", what, message);
	vm_abort(vm, "crashed", text);
}

/* -EPIPE is followed by closed(), which says it once for all. */
#define DONE_CHECK(what)                           \
	do {                                       \
		if (err == -EPIPE)                 \
			return;                    \
		if (err) {                         \
			failed(vm, what, message); \
			return;                    \
		}                                  \
	} while (0)

static void continued(int err, const json_t *value, const char *message, void *arg)
{
	struct vm *vm = arg;

	(void)value;
	DONE_CHECK("run the virtual machine");
	up(vm);
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
		up(vm);
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

/* QEMU is gone, or out of its mind. Its keeper will tell; what does not end soon is ended. */
static void monitor_closed(int err, const char *message, void *arg)
{
	struct vm *vm = arg;

	qmp_free(vm->qmp);
	vm->qmp = NULL;
	if (vm->task != TASK_NONE)
		vm_task_finish(vm, -EPIPE, message);
	if (vm->state == VM_ENDED)
		return;
	if (err == -EPIPE)
		vm_timer_start(vm, VM_LOST_MS);
	else
		vm_abort(vm, err == -ETIMEDOUT ? "crashed" : "protocol-error", message);
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

void vm_monitor_open(struct vm *vm)
{
	int err;

	vm->state = VM_OPENING;
	vm_timer_start(vm, VM_START_MS);
	err = qmp_new(vm->engine->loop, vm->qmp_path, &monitor_ops, vm, &vm->qmp);
	if (err)
		failed(vm, "be reached", strerror(-err));
}
