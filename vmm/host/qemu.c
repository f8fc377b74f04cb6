/* The engines tcg and kvm: QEMU microvm, started through carrel-spawn. */
#include "engine_inner.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "log_tail.h"
#include "tsc.h"
#include "vmm/qemu_revision.h"

void vm_send(struct vm *vm, uint32_t verb)
{
	struct spawn_request request = { .verb = verb, .deadline_boottime_ns = vm->deadline_boottime_ns };

	memcpy(request.id, vm->id, sizeof(request.id));
	memcpy(request.reason, vm->reason, sizeof(request.reason));
	if (spawn_link_send(vm->engine->link, &request, NULL, 0) != 0)
		return; /* said again when carrel-spawn is back, from vm_link_connected() */
	if (verb == SPAWN_STOP)
		vm->stop_sent = true;
	if (verb == SPAWN_DEADLINE)
		vm->deadline_late = false;
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
	qmp_free(vm->qmp);
	vm->qmp = NULL;
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

/* What QEMU said last is the best sentence there is when nothing else was noted. */
static void ended_message(const struct vm *vm, const char *reason, char *ret, size_t size)
{
	char line[160];

	snprintf(ret, size, "%s", vm->message);
	if (vm->message[0] || strncmp(reason, "crashed", strlen("crashed")) != 0)
		return;
	if (log_tail_line(vm->engine->run_dir, vm->id, "qemu.log", line, sizeof(line)) == 0 && line[0])
		snprintf(ret, size, "QEMU ended: %s", line);
	else
		snprintf(ret, size, "The virtual machine ended by itself.");
}

static void vm_ended_event(struct vm *vm, const char *reason)
{
	char message[SPAWN_MESSAGE_MAX];

	ended_message(vm, reason, message, sizeof(message));
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
	if (!vm->stopping)
		vm_monitor_open(vm);
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
	/* A carrel-spawn that was killed may have left it frozen. */
	vm_send(vm, SPAWN_THAW);
	vm_send(vm, SPAWN_STAT);
	vm_pages_lost(vm);
	if (vm->stopping)
		vm_send(vm, SPAWN_STOP);
}

static int paths_set(struct vm *vm, const char *run_dir)
{
	int a = snprintf(vm->agent_path, sizeof(vm->agent_path), "%s/%s/agent.sock", run_dir, vm->id);
	int b = snprintf(vm->qmp_path, sizeof(vm->qmp_path), "%s/%s/qmp.sock", run_dir, vm->id);

	return a < 0 || b < 0 || a >= (int)sizeof(vm->agent_path) || b >= (int)sizeof(vm->qmp_path)
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
	qmp_free(vm->qmp);
	vm->qmp = NULL;
	vm_save_close(vm);
	uv_close((uv_handle_t *)&vm->timer, timer_closed);
}

static void qemu_free(struct vm *vm)
{
	if (!vm)
		return;
	if (vm->state == VM_ENDED)
		engine_forget(vm->engine, vm->id);
	vm_drop(vm);
}

/* In the order of enum spawn_fd; what the mode does not use stays at home. */
static unsigned files_of(const struct vm_config *c, int *ret_fds, uint32_t *ret_mask)
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
	};
	unsigned n = 0;

	*ret_mask = 0;
	for (int i = 0; i < SPAWN_FD_COUNT; i++)
		if (all[i] >= 0) {
			ret_fds[n++] = all[i];
			*ret_mask |= 1u << i;
		}
	return n;
}

static int start_send(struct vm *vm, const struct vm_config *c)
{
	const struct engine_ops *ops = vm->engine->ops;
	struct spawn_request request = {
		.verb = SPAWN_START,
		.engine = ops == &engine_kvm ? SPAWN_ENGINE_QEMU_KVM : SPAWN_ENGINE_TCG,
		.mode = c->mode,
		.memory_mb = c->cls.memory_mb,
		.vcpus = c->cls.vcpus,
		.host_memory_mb = c->cls.memory_mb + engine_overhead_mb(ops),
		.host_cpu_milli = c->cpu_milli + ENGINE_LOOP_CPU_MILLI,
		.tsc_khz = tsc_khz(),
		.deadline_boottime_ns = c->deadline_boottime_ns,
	};
	int fds[SPAWN_FD_COUNT];
	unsigned n = files_of(c, fds, &request.fds_mask);

	memcpy(request.id, vm->id, sizeof(request.id));
	return spawn_link_send(vm->engine->link, &request, fds, n);
}

static int qemu_start(struct engine *e, const struct vm_config *c, const struct vm_ops *ops, void *arg,
		      struct vm **ret)
{
	struct vm *vm;
	int err;

	err = vm_new(e, c->id, ops, arg, &vm);
	if (err)
		return err;
	vm->mode = c->mode;
	err = start_send(vm, c);
	if (err) {
		vm_drop(vm);
		return err;
	}
	*ret = vm;
	return 0;
}

static int qemu_adopt(struct engine *e, const char *id, const struct vm_ops *ops, void *arg, struct vm **ret)
{
	struct vm *vm;
	int err;

	err = vm_new(e, id, ops, arg, &vm);
	if (err)
		return err;
	vm->mode = VM_CLONE;
	vm->adopted = true;
	vm_send(vm, SPAWN_THAW);
	vm_send(vm, SPAWN_STAT);
	*ret = vm;
	return 0;
}

static int qemu_stop(struct vm *vm, const char *reason)
{
	if (vm->state == VM_ENDED)
		return 0;
	if (!vm->stopping)
		snprintf(vm->reason, sizeof(vm->reason), "%s", reason);
	vm->stopping = true;
	vm_send(vm, SPAWN_STOP);
	return 0;
}

static int qemu_set_deadline(struct vm *vm, uint64_t boottime_ns)
{
	if (vm->state == VM_ENDED)
		return -ESRCH;
	vm->deadline_boottime_ns = boottime_ns;
	vm->deadline_late = true;
	if (vm->state != VM_STARTING)
		vm_send(vm, SPAWN_DEADLINE);
	return 0;
}

static void qemu_hand_over(struct vm *vm, const struct vm_ops *ops, void *arg)
{
	vm->ops = ops;
	vm->arg = arg;
}

static int why(char *ret_why, unsigned size, const char *text)
{
	snprintf(ret_why, size, "%s", text);
	return -ENODEV;
}

static int tcg_probe(char *ret_why, unsigned size)
{
	if (!qemu_program_path())
		return why(ret_why, size, "QEMU is not installed: install the package qemu-system-x86.");
	if (tsc_khz() == 0)
		return why(ret_why, size, "This processor has no time stamp counter that moves.");
	return 0;
}

/* CPUID leaf 1 ECX (Intel) and leaf 0x80000001 ECX (AMD): the processor virtualises. */
#define CPUID_1_ECX_VMX (1u << 5)
#define CPUID_8000_0001_ECX_SVM (1u << 2)

/* SVM or VMX: paravirtual KVM variants without either make machines, too, but
 * none that an unmodified guest kernel runs in. */
static bool cpu_virtualises(void)
{
	unsigned a, b, c, d;

	if (__get_cpuid(1, &a, &b, &c, &d) && (c & CPUID_1_ECX_VMX))
		return true;
	return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & CPUID_8000_0001_ECX_SVM);
}

/* A node that is there may still not work: in a container, or without the module. */
static int kvm_probe(char *ret_why, unsigned size)
{
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = -1, err;

	/* A right to it would not help there. */
	if (fd < 0 && errno == EACCES && cpu_virtualises())
		return why(ret_why, size, "The service user may not open /dev/kvm: add it to the group kvm.");
	if (!cpu_virtualises()) {
		if (fd >= 0)
			close(fd);
		return why(ret_why, size, "This processor shows neither SVM nor VMX.");
	}
	if (fd < 0)
		return why(ret_why, size,
			   "This host offers no hardware virtualisation (/dev/kvm cannot be opened).");
	if (ioctl(fd, KVM_GET_API_VERSION, 0) == KVM_API_VERSION)
		vm = ioctl(fd, KVM_CREATE_VM, 0);
	err = vm < 0 ? why(ret_why, size, "/dev/kvm is there but makes no virtual machine.")
		     : tcg_probe(ret_why, size);
	if (vm >= 0)
		close(vm);
	close(fd);
	return err;
}

#define QEMU_OPS                                                                                           \
	.start = qemu_start, .adopt = qemu_adopt, .pause = vm_pause, .resume = vm_resume, .save = vm_save, \
	.stop = qemu_stop, .set_deadline = qemu_set_deadline, .hand_over = qemu_hand_over, .free = qemu_free

const struct engine_ops engine_tcg = {
	.name = "tcg", .accel = "tcg," QEMU_CPU_TCG, .probe = tcg_probe, QEMU_OPS
};
const struct engine_ops engine_kvm = {
	.name = "kvm", .accel = "kvm," QEMU_CPU_KVM, .probe = kvm_probe, QEMU_OPS
};
