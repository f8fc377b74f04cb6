/* The engines tcg and kvm: a machine of QEMU or of carrel-vmm, started through carrel-spawn. */
#include "engine_inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log_tail.h"
#include "probe.h"
#include "tsc.h"
#include "vmm/qemu_revision.h"

/* What tells the engines apart. */
static const struct kind {
	const struct engine_ops *ops;
	uint32_t spawn_engine;
	const struct monitor_ops *monitor;
} kinds[] = {
	{ &engine_kvm, SPAWN_ENGINE_KVM, &monitor_vmm },
	{ &engine_kvm_qemu, SPAWN_ENGINE_QEMU_KVM, &monitor_qemu },
	{ &engine_tcg, SPAWN_ENGINE_TCG, &monitor_qemu },
	{ &engine_jail, SPAWN_ENGINE_JAIL, &monitor_jail },
};

static const struct kind *kind_of(const struct engine_ops *ops)
{
	const struct kind *k = kinds;

	while (k->ops != ops)
		k++;
	return k;
}

int vm_send(struct vm *vm, uint32_t verb)
{
	struct spawn_request request = { .verb = verb, .deadline_boottime_ns = vm->deadline_boottime_ns };
	int err;

	memcpy(request.id, vm->id, sizeof(request.id));
	memcpy(request.reason, vm->reason, sizeof(request.reason));
	err = spawn_link_send(vm->engine->link, &request, NULL, 0);
	if (err)
		return err; /* said again when carrel-spawn is back, from vm_link_connected() */
	if (verb == SPAWN_STOP)
		vm->stop_sent = true;
	if (verb == SPAWN_DEADLINE)
		vm->deadline_late = false;
	return 0;
}

void vm_end(struct vm *vm, const char *reason, const char *message)
{
	if (vm->state == VM_ENDED)
		return;
	if (vm->task != TASK_NONE)
		vm_task_finish(vm, -ECANCELED, "The sandbox ended meanwhile.");
	if (vm->state == VM_ENDED)
		return;
	vm->state = VM_ENDED;
	uv_timer_stop(&vm->timer);
	vm->monitor->close(vm);
	vm->ops->ended(vm, reason, message, vm->arg);
}

void vm_abort(struct vm *vm, const char *reason, const char *message)
{
	if (!vm->message[0])
		snprintf(vm->message, sizeof(vm->message), "%s", message);
	if (!vm->stopping)
		snprintf(vm->reason, sizeof(vm->reason), "%s", reason);
	vm->stopping = true;
	vm_send(vm, SPAWN_STOP);
}

/* Why a guest gave up is on its console, in the guest's words: the agent's, else its kernel's. */
static bool guest_said(const struct vm *vm, char *ret, size_t size)
{
	static const char *const words[] = { "carrel-agent: died", "Kernel panic" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (log_tail_from(vm->engine->run_dir, vm->id, "console.log", words[i], ret, size) == 0)
			return true;
	return false;
}

/* What the monitor said last is the best sentence there is when nothing else was noted. */
static void crash_message(const struct vm *vm, char *message, size_t size)
{
	const char *run_dir = vm->engine->run_dir;
	char line[160];
	size_t used;

	if (!message[0] && log_tail_line(run_dir, vm->id, "qemu.log", line, sizeof(line)) == 0 && line[0])
		snprintf(message, size, "%s ended: %s", vm->monitor->name, line);
	else if (!message[0])
		snprintf(message, size, "The virtual machine ended by itself.");
	used = strlen(message);
	if (guest_said(vm, line, sizeof(line)))
		snprintf(message + used, size - used, " Its console said: %s", line);
}

static void vm_ended_event(struct vm *vm, const char *reason)
{
	char message[SPAWN_MESSAGE_MAX];

	snprintf(message, sizeof(message), "%s", vm->message);
	if (strncmp(reason, "crashed", strlen("crashed")) == 0)
		crash_message(vm, message, sizeof(message));
	vm_end(vm, reason, message);
}

static void start_replied(struct vm *vm, const struct spawn_reply *reply)
{
	if (vm->state != VM_STARTING)
		return;
	if (reply->error) {
		vm_end(vm, vm->stopping ? vm->reason : "crashed", reply->message);
		return;
	}
	if (vm->deadline_late)
		vm_send(vm, SPAWN_DEADLINE);
	if (vm->stopping)
		return;
	vm->state = VM_OPENING;
	vm_timer_start(vm, VM_START_MS);
	vm->monitor->open(vm);
}

void vm_up(struct vm *vm)
{
	vm->state = VM_UP;
	uv_timer_stop(&vm->timer);
	if (vm->deadline_late)
		vm_send(vm, SPAWN_DEADLINE);
	if (!vm->stopping)
		vm->ops->started(vm, vm->agent_path, vm->arg);
}

void vm_failed(struct vm *vm, const char *what, const char *message)
{
	char text[SPAWN_MESSAGE_MAX];

	snprintf(text, sizeof(text), "%s cannot %s: %.160s", vm->monitor->name, what, message);
	vm_abort(vm, "crashed", text);
}

void vm_monitor_lost(struct vm *vm, int err, const char *message)
{
	vm->monitor->close(vm);
	if (vm->task != TASK_NONE)
		vm_task_finish(vm, -EPIPE, message);
	if (vm->state == VM_ENDED)
		return;
	if (err == -EPIPE)
		vm_timer_start(vm, VM_LOST_MS);
	else
		vm_abort(vm, err == -ETIMEDOUT ? "crashed" : "protocol-error", message);
}

/* After a new connection, or for adopt(). */
static void stat_replied(struct vm *vm, const struct spawn_reply *reply)
{
	if (reply->error)
		vm_end(vm, vm->stopping ? vm->reason : "crashed",
		       "Nothing of this sandbox runs any more, and carrel-spawn has no record of its end.");
	else if (!reply->running)
		vm_ended_event(vm, reply->reason);
	else if (vm->state == VM_STARTING)
		start_replied(vm, reply);
	else if (vm->deadline_late)
		vm_send(vm, SPAWN_DEADLINE);
}

void vm_reply(struct vm *vm, const struct spawn_reply *reply)
{
	if (vm->state == VM_ENDED)
		return;
	switch (reply->verb) {
	case SPAWN_START:
		start_replied(vm, reply);
		break;
	case SPAWN_STAT:
		stat_replied(vm, reply);
		break;
	case SPAWN_STOP:
		if (reply->error == -ENOENT)
			vm_end(vm, vm->reason, vm->message);
		break;
	case SPAWN_DEADLINE:
		/* Too many at once: the newest is said again once one was answered. */
		if (reply->error == -EBUSY)
			vm->deadline_late = true;
		else if (vm->deadline_late)
			vm_send(vm, SPAWN_DEADLINE);
		break;
	case SPAWN_FREEZE:
	case SPAWN_THAW:
		vm_freezer_replied(vm, reply);
		break;
	case SPAWN_PAGES:
		vm_pages_replied(vm, reply);
		break;
	case SPAWN_EVENT_ENDED:
		vm_ended_event(vm, reply->reason);
		break;
	}
}

void vm_link_connected(struct vm *vm)
{
	if (vm->state == VM_ENDED)
		return;
	/* A carrel-spawn that was killed may have left it frozen, or not have done it. */
	if (!vm->monitor->freezes)
		vm_send(vm, SPAWN_THAW);
	else if (vm->task != TASK_NONE)
		vm_send(vm, vm->task == TASK_PAUSE ? SPAWN_FREEZE : SPAWN_THAW);
	vm_send(vm, SPAWN_STAT);
	vm_pages_lost(vm);
	if (vm->stopping)
		vm_send(vm, SPAWN_STOP);
}

static int paths_set(struct vm *vm, const char *run_dir)
{
	int a = snprintf(vm->agent_path, sizeof(vm->agent_path), "%s/%s/agent.sock", run_dir, vm->id);
	int b = snprintf(vm->monitor_path, sizeof(vm->monitor_path), "%s/%s/%s", run_dir, vm->id,
			 vm->monitor->socket);

	return a < 0 || b < 0 || a >= (int)sizeof(vm->agent_path) || b >= (int)sizeof(vm->monitor_path)
		       ? -ENAMETOOLONG
		       : 0;
}

static int vm_new(struct engine *e, const char *id, const struct vm_ops *ops, void *arg, struct vm **ret)
{
	struct vm *vm;
	int err;

	if (!*id || strlen(id) >= SPAWN_ID_MAX)
		return -EINVAL;
	vm = calloc(1, sizeof(*vm));
	if (!vm)
		return -ENOMEM;
	vm->engine = e;
	vm->ops = ops;
	vm->arg = arg;
	vm->state_fd = vm->pages_fd = vm->spool_fd = -1;
	for (int i = 0; i < CONTROL_FILES; i++)
		vm->files[i] = -1;
	vm->monitor = kind_of(e->ops)->monitor;
	snprintf(vm->id, sizeof(vm->id), "%s", id);
	err = paths_set(vm, e->run_dir);
	if (err) {
		free(vm);
		return err;
	}
	uv_timer_init(e->loop, &vm->timer);
	vm->timer.data = vm;
	vm->next = e->vms;
	e->vms = vm;
	*ret = vm;
	return 0;
}

static void timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

/* Off the list at once; the memory follows its last handle. */
static void vm_drop(struct vm *vm)
{
	struct vm **at = &vm->engine->vms;

	while (*at != vm)
		at = &(*at)->next;
	*at = vm->next;
	vm->state = VM_ENDED;
	vm->monitor->close(vm);
	vm_task_files_close(vm);
	uv_close((uv_handle_t *)&vm->timer, timer_closed);
}

static void engine_vm_free(struct vm *vm)
{
	if (!vm)
		return;
	if (vm->state == VM_ENDED)
		engine_forget(vm->engine, vm->id);
	vm_drop(vm);
}

/* carrel-vmm writes a template's memory into its file, whose pages count as its own until the disk has them. */
static unsigned host_memory_mb(const struct vm *vm, const struct vm_config *c)
{
	unsigned copies = vm->monitor == &monitor_vmm && c->mode == VM_TEMPLATE ? 2 : 1;

	return copies * c->cls.memory_mb + engine_overhead_mb(vm->engine->ops);
}

static int start_send(struct vm *vm, const struct vm_config *c)
{
	const struct engine_ops *ops = vm->engine->ops;
	struct spawn_request request = {
		.verb = SPAWN_START,
		.engine = kind_of(ops)->spawn_engine,
		.mode = c->mode,
		.memory_mb = c->cls.memory_mb,
		.vcpus = c->cls.vcpus,
		.host_memory_mb = host_memory_mb(vm, c),
		.host_cpu_milli = c->cpu_milli + (vm->monitor->freezes ? 0 : ENGINE_LOOP_CPU_MILLI),
		.tsc_khz = tsc_khz(),
		.deadline_boottime_ns = c->deadline_boottime_ns,
	};
	int fds[SPAWN_FD_COUNT], err;
	unsigned n = 0;

	memcpy(request.id, vm->id, sizeof(request.id));
	err = vm->monitor->prepare(vm, c, fds, &n, &request.fds_mask);
	return err ? err : spawn_link_send(vm->engine->link, &request, fds, n);
}

static int engine_vm_start(struct engine *e, const struct vm_config *c, const struct vm_ops *ops, void *arg,
		      struct vm **ret)
{
	struct vm *vm;
	int err;

	err = vm_new(e, c->id, ops, arg, &vm);
	if (err)
		return err;
	vm->mode = c->mode;
	vm->cls = c->cls;
	err = start_send(vm, c);
	if (err) {
		vm_drop(vm);
		return err;
	}
	*ret = vm;
	return 0;
}

static int engine_vm_adopt(struct engine *e, const char *id, const struct vm_ops *ops, void *arg, struct vm **ret)
{
	struct vm *vm;
	int err;

	err = vm_new(e, id, ops, arg, &vm);
	if (err)
		return err;
	vm->mode = VM_CLONE;
	vm->adopted = true;
	if (!vm->monitor->freezes)
		vm_send(vm, SPAWN_THAW);
	vm_send(vm, SPAWN_STAT);
	*ret = vm;
	return 0;
}

static int engine_vm_stop(struct vm *vm, const char *reason)
{
	if (vm->state == VM_ENDED)
		return 0;
	if (!vm->stopping)
		snprintf(vm->reason, sizeof(vm->reason), "%s", reason);
	vm->stopping = true;
	vm_send(vm, SPAWN_STOP);
	return 0;
}

static int engine_vm_set_deadline(struct vm *vm, uint64_t boottime_ns)
{
	if (vm->state == VM_ENDED)
		return -ESRCH;
	vm->deadline_boottime_ns = boottime_ns;
	vm->deadline_late = true;
	if (vm->state != VM_STARTING)
		vm_send(vm, SPAWN_DEADLINE);
	return 0;
}

static int vm_no_save(struct vm *vm, int state_fd, int pages_fd)
{
	(void)vm;
	(void)state_fd;
	(void)pages_fd;
	return -ENOTSUP;
}

static void engine_vm_hand_over(struct vm *vm, const struct vm_ops *ops, void *arg)
{
	vm->ops = ops;
	vm->arg = arg;
}

#define VM_OPS                                                                           \
	.start = engine_vm_start, .adopt = engine_vm_adopt, .pause = vm_pause, .resume = vm_resume, \
	.stop = engine_vm_stop, .set_deadline = engine_vm_set_deadline,                     \
	.hand_over = engine_vm_hand_over, .free = engine_vm_free
#define SAVES .saves = true, .save = vm_save

const struct engine_ops engine_tcg = {
	.name = "tcg", .monitor = "qemu", .accel = "tcg," QEMU_CPU_TCG, .probe = probe_tcg, VM_OPS, SAVES
};
const struct engine_ops engine_kvm_qemu = {
	.name = "kvm", .monitor = "qemu", .accel = "kvm," QEMU_CPU_KVM, .probe = probe_kvm_qemu, VM_OPS, SAVES
};
const struct engine_ops engine_kvm = {
	.name = "kvm", .monitor = "carrel-vmm", .accel = "kvm," QEMU_CPU_KVM, .probe = probe_kvm, VM_OPS, SAVES
};
/* Who asks for it says that the code is trusted: nothing else chooses it. */
const struct engine_ops engine_jail = {
	.name = "jail", .monitor = "none", .accel = "none", .by_name = true, .probe = probe_jail, VM_OPS, .save = vm_no_save
};
