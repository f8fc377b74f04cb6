/* The child that becomes QEMU, carrel-vmm or the agent. */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/jail/jail.h"
#include "vmm/jail/qemu_args.h"

static void pass_files(const struct keeper_config *c)
{
	fcntl(KEEPER_FD_AGENT, F_SETFD, 0);
	if (keeper_no_monitor(c))
		return;
	fcntl(KEEPER_FD_MONITOR, F_SETFD, 0);
	fcntl(KEEPER_FD_CONSOLE, F_SETFD, 0);
	if (keeper_uses_kvm(c))
		fcntl(KEEPER_FD_KVM, F_SETFD, 0);
	for (int i = 0; i < SPAWN_FD_COUNT; i++)
		if (c->fds_mask & (1u << i))
			fcntl(KEEPER_FD_FILES + i, F_SETFD, 0);
}

/* For carrel-preload.so and the loader; NULL ends it. */
struct environment {
	char text[4][32];
	char *env[8];
	int used;
};

static void environment_fd(struct environment *e, int slot, const char *name, int fd)
{
	snprintf(e->text[slot], sizeof(e->text[slot]), "%s=%d", name, fd);
	e->env[e->used++] = e->text[slot];
}

/* As in a microVM, carrel-init's. */
static void environment_agent(struct environment *e)
{
	static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", home[] = "HOME=/root",
		    locale[] = "LANG=C.UTF-8";

	*e = (struct environment){ .env = { path, home, locale }, .used = 3 };
}

static void environment_fill(const struct keeper_config *c, struct environment *e)
{
	static char path[] = "PATH=/usr/bin", locale[] = "LC_ALL=C", preload[] = "LD_PRELOAD=" JAIL_PRELOAD;

	*e = (struct environment){ .env = { path, locale, preload }, .used = 3 };
	if (spawn_mode_clones(c->mode))
		environment_fd(e, 0, "CARREL_PRIVATE_FD", KEEPER_FD_FILES + SPAWN_FD_RAM);
	if (c->mode == SPAWN_RESUME) {
		environment_fd(e, 1, "CARREL_STATE_FD", KEEPER_FD_FILES + SPAWN_FD_STATE);
		environment_fd(e, 2, "CARREL_PAGES_FD", KEEPER_FD_FILES + SPAWN_FD_PAGES);
	}
	if (keeper_uses_kvm(c))
		environment_fd(e, 3, "CARREL_KVM_FD", KEEPER_FD_KVM);
}

/* The numbers are the same in every sandbox, and so are the arguments. */
static int vmm_args_build(struct qemu_args *ret)
{
	static const struct {
		const char *option;
		int fd;
	} files[] = { { "--control", KEEPER_FD_MONITOR },
		      { "--kvm", KEEPER_FD_KVM },
		      { "--agent", KEEPER_FD_AGENT },
		      { "--console", KEEPER_FD_CONSOLE } };

	*ret = (struct qemu_args){ 0 };
	qemu_args_add(ret, "%s", JAIL_PROGRAM);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		qemu_args_add(ret, "%s", files[i].option);
		qemu_args_add(ret, "%d", files[i].fd);
	}
	return ret->error;
}

static int agent_args_build(struct qemu_args *ret)
{
	*ret = (struct qemu_args){ 0 };
	qemu_args_add(ret, "/usr/lib/carrel/carrel-agent");
	qemu_args_add(ret, "--jail");
	qemu_args_add(ret, "%d", KEEPER_FD_AGENT);
	return ret->error;
}

static int args_build(const struct keeper_config *c, struct qemu_args *ret)
{
	if (keeper_no_monitor(c))
		return agent_args_build(ret);
	return keeper_own_monitor(c) ? vmm_args_build(ret) : qemu_args_build(ret, c);
}

/* The child's. ready_fd tells a keeper that waits for no monitor that there will be nothing. */
static void __attribute__((noreturn)) exec_fail(const struct jail *jail, int ready_fd, const char *message)
{
	dprintf(jail->log_fd, "%s\n", message);
	if (ready_fd >= 0 && write(ready_fd, "", 1) != 1)
		_exit(125);
	_exit(126);
}

/* The child. Failures go to qemu.log, which the keeper quotes. */
static void exec_qemu(const struct keeper *k, const struct jail *jail, const struct qemu_args *args, int ready_fd)
{
	char message[SPAWN_MESSAGE_MAX];
	struct environment e = { .used = 0 };

	if (jail_enter_guest(jail, message, sizeof(message)) != 0)
		exec_fail(jail, ready_fd, message);
	if (keeper_no_monitor(&k->config))
		environment_agent(&e);
	else if (!keeper_own_monitor(&k->config))
		environment_fill(&k->config, &e);
	pass_files(&k->config);
	execve(args->argv[0], args->argv, e.env);
	snprintf(message, sizeof(message), "Cannot execute %s: %s.", args->argv[0], strerror(errno));
	exec_fail(jail, ready_fd, message);
}

/* In a PID and a mount namespace of its own, for the engine jail. */
static pid_t child_new(const struct keeper_config *c)
{
	const unsigned long apart = keeper_no_monitor(c) ? CLONE_NEWPID | CLONE_NEWNS : 0;

	return (pid_t)syscall(SYS_clone, apart | SIGCHLD, NULL, NULL, NULL, NULL);
}

int keeper_child_start(struct keeper *k, const struct jail *jail)
{
	static struct qemu_args args;
	int ready[2] = { -1, -1 }, err = args_build(&k->config, &args);

	if (!err && keeper_no_monitor(&k->config) && pipe2(ready, O_CLOEXEC) != 0)
		err = -errno;
	if (err)
		return err;
	k->qemu = child_new(&k->config);
	if (k->qemu == 0)
		exec_qemu(k, jail, &args, ready[1]);
	err = k->qemu < 0 ? -errno : 0;
	if (ready[1] >= 0) {
		close(ready[1]);
		k->ready_fd = ready[0];
	}
	return err;
}
