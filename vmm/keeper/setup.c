/* From a bare process to a running QEMU, in order. */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "vmm/jail/jail.h"
#include "vmm/jail/qemu_args.h"

static int fail(char *ret_message, size_t size, int err, const char *what)
{
	snprintf(ret_message, size, "Cannot %s for the sandbox: %s.", what, strerror(-err));
	return err;
}

/* Out of memory, the kernel must rather kill QEMU than its keeper, which can say
 * why, or carreld. QEMU inherits the higher score; then the keeper goes back to
 * its own. (Raising needs no privilege, unlike going below the own one.) */
#define GUEST_OOM_SCORE "500"

struct oom_score {
	int fd;
	char own[16];
};

static int oom_score_raise(struct oom_score *ret)
{
	struct oom_score score = { .fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC) };
	ssize_t n;

	if (score.fd < 0)
		return -errno;
	n = pread(score.fd, score.own, sizeof(score.own) - 1, 0);
	if (n > 0 && pwrite(score.fd, GUEST_OOM_SCORE, strlen(GUEST_OOM_SCORE), 0) > 0) {
		*ret = score;
		return 0;
	}
	int err = errno ? -errno : -EIO;
	close(score.fd);
	return err;
}

static int oom_score_restore(const struct oom_score *score)
{
	int err = pwrite(score->fd, score->own, strlen(score->own), 0) < 0 ? -errno : 0;

	close(score->fd);
	return err;
}

/* Numbers that this mode does not use must not be taken by anything else. */
static int fill_numbers(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -errno;
	for (int fd = KEEPER_FD_PARENT; fd < KEEPER_FD_END; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && dup2(null, fd) < 0)
			return -errno;
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
			return -errno;
	}
	if (null >= KEEPER_FD_END)
		close(null);
	return 0;
}

/* Machines share the open file of a descriptor they were given, its offset
 * included; each gets one of its own, with the rights of the first. */
static int reopen_file(int fd, int flags)
{
	char path[32];
	int fresh;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fresh = open(path, flags | O_CLOEXEC);
	if (fresh < 0 || dup2(fresh, fd) < 0)
		return -errno;
	close(fresh);
	return 0;
}

static int reopen_files(const struct keeper_config *c)
{
	/* Mounts and a disk, which nobody reads by them. */
	if (keeper_no_monitor(c))
		return 0;
	for (int i = 0; i < SPAWN_FD_COUNT; i++) {
		int fd = KEEPER_FD_FILES + i, flags;

		if (!(c->fds_mask & (1u << i)))
			continue;
		flags = fcntl(fd, F_GETFL);
		if (flags < 0)
			return -errno;
		flags &= O_ACCMODE;
		if (spawn_mode_clones(c->mode) && i != SPAWN_FD_SCRATCH)
			flags = O_RDONLY;
		int err = reopen_file(fd, flags);
		if (err)
			return err;
	}
	return 0;
}

static int open_events(struct keeper *k)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	k->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	k->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (k->signal_fd < 0 || k->timer_fd < 0)
		return -errno;
	return listen(KEEPER_FD_CONTROL, KEEPER_CONNECTIONS_MAX) != 0 ? -errno : 0;
}

/* Writers do not wait for the keeper: a flood loses text, not time. */
static int open_pipes(struct keeper *k, int *ret_log_write)
{
	int console[2], log[2];

	if (pipe2(console, O_CLOEXEC | O_NONBLOCK) != 0 || pipe2(log, O_CLOEXEC | O_NONBLOCK) != 0)
		return -errno;
	if (dup2(console[1], KEEPER_FD_CONSOLE) < 0)
		return -errno;
	close(console[1]);
	k->console_fd = console[0];
	k->qemu_fd = log[0];
	*ret_log_write = log[1];
	return 0;
}

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

static int start_qemu(struct keeper *k, const struct jail *jail)
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

const char *keeper_program_name(const struct keeper *k)
{
	if (keeper_no_monitor(&k->config))
		return "The sandbox's agent";
	return keeper_own_monitor(&k->config) ? "carrel-vmm" : "QEMU";
}

static enum jail_kind kind_of(const struct keeper_config *c)
{
	if (keeper_no_monitor(c))
		return JAIL_SPACE;
	return keeper_own_monitor(c) ? JAIL_VMM : JAIL_QEMU;
}

struct jail keeper_jail(const struct keeper *k)
{
	const struct keeper_config *c = &k->config;

	return (struct jail){ .kind = kind_of(c),
			      .preload = c->preload,
			      .program = c->program,
			      .guest_uid = c->guest_uid,
			      .keeper_uid = c->keeper_uid,
			      .guest_cgroup_fd = KEEPER_FD_GUEST_CGROUP,
			      .space = { .id = c->id,
					 .memory_mb = c->memory_mb,
					 .base = c->users_base,
					 .user_fd = -1,
					 .rootfs_fd = KEEPER_FD_FILES + SPAWN_FD_ROOTFS,
					 .guest_fd = KEEPER_FD_FILES + SPAWN_FD_GUEST,
					 .disk_fd = KEEPER_FD_FILES + SPAWN_FD_SCRATCH,
					 .pids_group = c->pids_group,
					 .memory_group = c->memory_group } };
}

/* The namespace lives as long as the descriptor, or something in it. */
static int make_user(const struct keeper_config *c, struct jail *jail)
{
	if (!keeper_no_monitor(c))
		return 0;
	jail->space.user_fd = space_user_make(c->users_base);
	if (jail->space.user_fd < 0)
		return jail->space.user_fd;
	return fcntl(jail->space.user_fd, F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0;
}

int keeper_setup(struct keeper *k, char *ret_message, size_t size)
{
	struct jail jail = keeper_jail(k);
	struct oom_score score;
	int err;

	if ((err = fill_numbers()) != 0)
		return fail(ret_message, size, err, "reserve descriptors");
	if ((err = oom_score_raise(&score)) != 0)
		return fail(ret_message, size, err, "raise QEMU's out-of-memory score");
	if ((err = reopen_files(&k->config)) != 0)
		return fail(ret_message, size, err, "reopen its files");
	if ((err = open_events(k)) != 0)
		return fail(ret_message, size, err, "open the keeper's timer and socket");
	if ((err = keeper_deadline_set(k, k->config.deadline_boottime_ns)) != 0)
		return fail(ret_message, size, err, "set the deadline");
	if ((err = open_pipes(k, &jail.log_fd)) != 0)
		return fail(ret_message, size, err, "open the log pipes");
	if ((err = make_user(&k->config, &jail)) != 0)
		return fail(ret_message, size, err, "make a user namespace (user.max_user_namespaces may forbid it)");
	if ((err = jail_build(&jail, ret_message, size)) != 0)
		return err;
	if ((err = start_qemu(k, &jail)) != 0)
		return fail(ret_message, size, err, "start QEMU");
	if ((err = oom_score_restore(&score)) != 0)
		return fail(ret_message, size, err, "restore the keeper's out-of-memory score");
	close(jail.log_fd);
	if (jail.space.user_fd >= 0)
		close(jail.space.user_fd);
	close(KEEPER_FD_GUEST_CGROUP);
	for (int fd = KEEPER_FD_AGENT; fd < KEEPER_FD_END; fd++)
		close(fd);
	return 0;
}
