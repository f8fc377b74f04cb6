/* Pause, resume and save of a machine of QEMU's.
 *
 * Save, in this order: the device state by QEMU's migration, with guest memory
 * left out (x-ignore-shared), into a file of ours, and from there into the
 * caller's: QEMU keeps whatever it was given, and must not hold on to that one.
 * Then, unless it is a template, carrel-spawn freezes QEMU and copies the
 * private pages. */
#include "engine_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/pages.h"

enum {
	/* A stopped QEMU still moves bytes between the link's socket and guest
	 * memory, 4 KiB at each turn of its loop, while either has room: at most
	 * what a unix socket holds (net.core.wmem_default, 208 KiB). That must be
	 * over before the state is taken, and each answer of the monitor takes a turn. */
	SAVE_SETTLE_TURNS = 64,
	/* Asked at once: what QEMU takes from its monitor before it has answered. */
	SAVE_SETTLE_AHEAD = 8,
};

static void finish_errno(struct vm *vm, int err, const char *what)
{
	char text[SPAWN_MESSAGE_MAX];

	snprintf(text, sizeof(text), "%s: %s.", what, strerror(-err));
	vm_task_finish(vm, err, text);
}

/* --- pages --- */

static void pages_ask(struct vm *vm)
{
	struct spawn_request request = { .verb = SPAWN_PAGES,
					 .fds_mask = 1u << SPAWN_FD_STATE | 1u << SPAWN_FD_PAGES };
	const int fds[] = { vm->state_fd, vm->pages_fd };
	int err;

	memcpy(request.id, vm->id, sizeof(request.id));
	err = spawn_link_send(vm->engine->link, &request, fds, 2);
	if (err)
		finish_errno(vm, err, "carrel-spawn cannot be asked to save the memory");
	else
		vm->pages_serial = request.serial;
}

void vm_pages_replied(struct vm *vm, const struct spawn_reply *reply)
{
	if (vm->task == TASK_SAVE && vm->pages_serial == reply->serial)
		vm_task_finish(vm, reply->error, reply->message);
}

/* Not from here: who is called may take machines off the list that is walked. */
void vm_pages_lost(struct vm *vm)
{
	if (vm->pages_serial)
		vm_timer_start(vm, 0);
}

/* --- device state --- */

/* The spool is small, and in memory. */
static int state_copy(const struct vm *vm)
{
	char bytes[16 * 1024];
	off_t at = 0;
	ssize_t n;

	if (ftruncate(vm->state_fd, 0) != 0)
		return -errno;
	while ((n = pread(vm->spool_fd, bytes, sizeof(bytes), at)) > 0) {
		if (at + n > PAGES_STATE_MAX)
			return -EFBIG;
		if (pwrite(vm->state_fd, bytes, (size_t)n, at) != n)
			return errno ? -errno : -ENOSPC;
		at += n;
	}
	return n < 0 ? -errno : at == 0 ? -ENODATA : 0;
}

void vm_state_saved(struct vm *vm)
{
	int err;

	vm->run = VM_SAVED;
	errno = 0;
	err = state_copy(vm);
	if (err)
		finish_errno(vm, err, "The device state cannot be written");
	else if (vm->pages_fd < 0)
		vm_task_finish(vm, 0, "");
	else
		pages_ask(vm);
}

/* One step of a save: go on, or end the task with the error. */
#define SAVE_CHECK()                                        \
	do {                                                \
		(void)value;                                \
		if (err == -EPIPE || vm->task != TASK_SAVE) \
			return;                             \
		if (err) {                                  \
			vm_task_finish(vm, err, message);   \
			return;                             \
		}                                           \
	} while (0)

static void save_begun(int err, const json_t *value, const char *message, void *arg)
{
	struct vm *vm = arg;

	SAVE_CHECK();
}

static void save_passed(int err, const json_t *value, const char *message, void *arg)
{
	struct vm *vm = arg;

	SAVE_CHECK();
	vm_ask(vm, "migrate", json_pack("{s:s}", "uri", "fd:state"), -1, save_begun);
}

static void save_prepared(int err, const json_t *value, const char *message, void *arg)
{
	struct vm *vm = arg;

	SAVE_CHECK();
	vm_ask(vm, "getfd", json_pack("{s:s}", "fdname", "state"), vm->spool_fd, save_passed);
}

static void save_settled(int err, const json_t *value, const char *message, void *arg)
{
	struct vm *vm = arg;

	SAVE_CHECK();
	if (++vm->turns == SAVE_SETTLE_TURNS) {
		vm_ask(vm, "migrate-set-capabilities", vm_capabilities(), -1, save_prepared);
		return;
	}
	while (vm->task == TASK_SAVE && vm->turns_asked < SAVE_SETTLE_TURNS &&
	       vm->turns_asked < vm->turns + SAVE_SETTLE_AHEAD) {
		vm->turns_asked++;
		vm_ask(vm, "query-status", NULL, -1, save_settled);
	}
}

/* --- verbs --- */

static void simple_done(int err, const json_t *value, const char *message, void *arg)
{
	(void)value;
	if (err != -EPIPE)
		vm_task_done(arg, err, message);
}

int qemu_go(struct vm *vm)
{
	static const struct {
		const char *command;
		qmp_done done;
	} first[] = { [TASK_PAUSE] = { "stop", simple_done },
		      [TASK_RESUME] = { "cont", simple_done },
		      [TASK_SAVE] = { "query-status", save_settled } };

	if (!vm->qmp)
		return -ESRCH;
	if (vm->task == TASK_SAVE) {
		vm->turns = 0;
		vm->turns_asked = 1;
		vm->spool_fd = memfd_create("carrel-state", MFD_CLOEXEC);
		if (vm->spool_fd < 0)
			return -errno;
	}
	return qmp_execute(vm->qmp, first[vm->task].command, NULL, -1, first[vm->task].done, vm);
}
