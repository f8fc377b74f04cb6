/* A machine of carrel-vmm's: carrel-spawn starts it empty, and over its control
 * socket it gets its files, boots or goes on, and does what it is asked. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine_inner.h"
#include "vmm_link.h"

/* No PIT or PM timer is needed to know the time: kvm-clock says both rates. */
#define VMM_CMDLINE \
	"console=ttyS0 quiet panic=-1 reboot=t tsc=reliable random.trust_cpu=on clocksource=kvm-clock"

static void files_close(struct vm *vm)
{
	for (int i = 0; i < CONTROL_FILES; i++)
		vm_fd_close(&vm->files[i]);
}

/* Until the monitor has them they are kept here: the caller's may be closed meanwhile. */
static int vmm_prepare(struct vm *vm, const struct vm_config *c, int *ret_fds, unsigned *ret_n, uint32_t *ret_mask)
{
	const bool clones = spawn_mode_clones(c->mode);
	const int from[CONTROL_FILES] = {
		[CONTROL_KERNEL] = clones ? -1 : c->kernel_fd,
		[CONTROL_INITRD] = clones ? -1 : c->initrd_fd,
		[CONTROL_ROOTFS] = c->rootfs_fd,
		[CONTROL_SCRATCH] = c->scratch_fd,
		[CONTROL_AGENT] = -1,
		[CONTROL_CONSOLE] = -1,
		[CONTROL_MEMORY] = c->mode == VM_BOOT ? -1 : c->ram_fd,
		[CONTROL_STATE] = clones ? c->state_fd : -1,
		[CONTROL_PAGES] = c->mode == VM_RESUME ? c->pages_fd : -1,
	};

	(void)ret_fds;
	*ret_n = 0;
	*ret_mask = 0;
	for (int i = 0; i < CONTROL_FILES; i++) {
		vm->files[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, 0);
		if (from[i] >= 0 && vm->files[i] < 0)
			return -errno;
	}
	return 0;
}

/* A machine that lacks part of itself must not run; the rest is carrel-vmm's to check. */
static bool files_complete(struct vm *vm)
{
	char text[SPAWN_MESSAGE_MAX];
	struct stat st;

	if (vm->mode == VM_RESUME && vm->files[CONTROL_PAGES] < 0) {
		vm_abort(vm, "crashed", "The saved memory is missing.");
		return false;
	}
	if (!spawn_mode_clones(vm->mode) || (fstat(vm->files[CONTROL_MEMORY], &st) == 0 &&
					     (uint64_t)st.st_size == (uint64_t)vm->cls.memory_mb << 20))
		return true;
	snprintf(text, sizeof(text), "The guest memory file is not %u MiB long.", vm->cls.memory_mb);
	vm_abort(vm, "crashed", text);
	return false;
}

/* A template boots, and its memory goes into its file when it is saved. */
static void start(struct vm *vm)
{
	struct control_request r = { .verb = CONTROL_START,
				     .memory_mb = vm->cls.memory_mb,
				     .vcpus = vm->cls.vcpus };
	int files[CONTROL_FILES], err;

	if (!files_complete(vm))
		return;
	memcpy(files, vm->files, sizeof(files));
	if (!spawn_mode_clones(vm->mode)) {
		snprintf(r.cmdline, sizeof(r.cmdline), "%s", VMM_CMDLINE);
		files[CONTROL_MEMORY] = -1;
	}
	err = vmm_link_ask(vm->link, &r, files);
	for (int i = 0; i < CONTROL_FILES; i++)
		if (i != CONTROL_MEMORY || vm->mode != VM_TEMPLATE)
			vm_fd_close(&vm->files[i]);
	if (err)
		vm_failed(vm, "be asked to start", strerror(-err));
}

static void greeted(struct vm *vm, uint32_t state)
{
	if (vm->state != VM_OPENING)
		return;
	if (!vm->adopted) {
		start(vm);
	} else if (state == CONTROL_EMPTY) {
		vm_abort(vm, "host-restart", "The sandbox had not started when Carrel was restarted.");
	} else {
		vm->run = state == CONTROL_PAUSED ? VM_PAUSED : VM_RUNS;
		vm_up(vm);
	}
}

static void started(struct vm *vm, const struct control_reply *r)
{
	if (vm->state != VM_OPENING)
		return;
	if (r->error)
		vm_failed(vm, "start the virtual machine", r->message);
	else
		vm_up(vm);
}

static const uint32_t verbs[] = {
	[TASK_PAUSE] = CONTROL_PAUSE,
	[TASK_RESUME] = CONTROL_RESUME,
	[TASK_SAVE] = CONTROL_SNAPSHOT,
};

static void on_reply(const struct control_reply *r, void *arg)
{
	struct vm *vm = arg;

	if (r->verb == CONTROL_HELLO) {
		greeted(vm, r->state);
	} else if (r->verb == CONTROL_START) {
		started(vm, r);
	} else if (r->verb == CONTROL_ENDED) {
		if (!vm->message[0])
			snprintf(vm->message, sizeof(vm->message), "The guest ended by itself: %.160s.", r->message);
	} else if (vm->task != TASK_NONE && r->verb == verbs[vm->task]) {
		if (!r->error && vm->task == TASK_SAVE)
			vm->run = VM_SAVED;
		vm_task_done(vm, r->error, r->message);
	}
}

static void on_closed(int err, const char *message, void *arg)
{
	vm_monitor_lost(arg, err, message);
}

static void vmm_open(struct vm *vm)
{
	static const struct vmm_link_ops ops = { .reply = on_reply, .closed = on_closed };
	int err = vmm_link_new(vm->engine->loop, vm->monitor_path, &ops, vm, &vm->link);

	if (err)
		vm_failed(vm, "be reached", strerror(-err));
}

static int vmm_go(struct vm *vm)
{
	struct control_request r = { .verb = verbs[vm->task] };
	int files[CONTROL_FILES];

	if (!vm->link)
		return -ESRCH;
	for (int i = 0; i < CONTROL_FILES; i++)
		files[i] = -1;
	if (vm->task == TASK_SAVE) {
		files[CONTROL_STATE] = vm->state_fd;
		files[CONTROL_PAGES] = vm->pages_fd;
		files[CONTROL_MEMORY] = vm->pages_fd < 0 ? vm->files[CONTROL_MEMORY] : -1;
	}
	return vmm_link_ask(vm->link, &r, files);
}

static void vmm_close(struct vm *vm)
{
	vmm_link_free(vm->link);
	vm->link = NULL;
	files_close(vm);
}

const struct monitor_ops monitor_vmm = {
	.name = "carrel-vmm",
	.socket = "control.sock",
	.prepare = vmm_prepare,
	.open = vmm_open,
	.go = vmm_go,
	.close = vmm_close,
};
