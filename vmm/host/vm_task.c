/* Pause, resume and save of a machine that runs: one at a time, whoever its monitor is. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "engine_inner.h"

static void timer_fired(uv_timer_t *timer)
{
	struct vm *vm = timer->data;
	char text[SPAWN_MESSAGE_MAX];

	if (vm->task != TASK_NONE && vm->pages_serial) {
		vm_task_finish(vm, -ETIMEDOUT,
			       "carrel-spawn did not save the memory: it was restarted meanwhile.");
	} else if (vm->task != TASK_NONE) {
		snprintf(text, sizeof(text), "%s did not finish in time.", vm->monitor->name);
		vm_task_finish(vm, -ETIMEDOUT, text);
	} else if (vm->state == VM_UP) {
		snprintf(text, sizeof(text), "%s closed its monitor.", vm->monitor->name);
		vm_abort(vm, "crashed", text);
	} else {
		vm_abort(vm, "crashed", "The virtual machine did not start in time.");
	}
}

void vm_timer_start(struct vm *vm, uint64_t ms)
{
	uv_timer_start(&vm->timer, timer_fired, ms, 0);
}

void vm_fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void vm_task_files_close(struct vm *vm)
{
	vm_fd_close(&vm->state_fd);
	vm_fd_close(&vm->spool_fd);
	vm_fd_close(&vm->pages_fd);
}

void vm_task_finish(struct vm *vm, int err, const char *message)
{
	/* Whatever a machine that is being ended failed of. */
	if (err && vm->stopping) {
		err = -ECANCELED;
		message = "The sandbox ended meanwhile.";
	}
	vm->task = TASK_NONE;
	vm->pages_serial = 0;
	vm_task_files_close(vm);
	uv_timer_stop(&vm->timer);
	vm->ops->done(vm, err, message, vm->arg);
}

void vm_task_done(struct vm *vm, int err, const char *message)
{
	if (vm->task == TASK_NONE)
		return;
	if (!err && vm->task == TASK_RESUME)
		vm->run = VM_RUNS;
	else if (!err && vm->task == TASK_PAUSE && vm->run == VM_RUNS)
		vm->run = VM_PAUSED;
	vm_task_finish(vm, err, message);
}

static int task_begin(struct vm *vm, enum vm_task task)
{
	int err;

	if (vm->state != VM_UP || vm->stopping)
		return -ESRCH;
	if (vm->task != TASK_NONE)
		return -EBUSY;
	vm->task = task;
	err = vm->monitor->go(vm);
	if (err)
		vm->task = TASK_NONE;
	else
		vm_timer_start(vm, VM_SAVE_MS);
	return err;
}

int vm_pause(struct vm *vm)
{
	return task_begin(vm, TASK_PAUSE);
}

int vm_resume(struct vm *vm)
{
	return task_begin(vm, TASK_RESUME);
}

int vm_save(struct vm *vm, int state_fd, int pages_fd)
{
	int err;

	if (vm->run != VM_PAUSED || (vm->mode == VM_TEMPLATE) != (pages_fd < 0) || vm->mode == VM_BOOT)
		return -EINVAL;
	if (vm->task != TASK_NONE)
		return -EBUSY;
	vm->state_fd = fcntl(state_fd, F_DUPFD_CLOEXEC, 0);
	if (vm->state_fd >= 0 && pages_fd >= 0)
		vm->pages_fd = fcntl(pages_fd, F_DUPFD_CLOEXEC, 0);
	err = vm->state_fd < 0 || (pages_fd >= 0 && vm->pages_fd < 0) ? -errno : task_begin(vm, TASK_SAVE);
	if (err)
		vm_task_files_close(vm);
	return err;
}
