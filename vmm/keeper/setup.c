/* From a bare process to a running QEMU, in order. */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
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

/* The child. Failures go to qemu.log, which the keeper quotes. */
static void exec_qemu(const struct keeper *k, const struct jail *jail, const struct qemu_args *args)
{
	char message[SPAWN_MESSAGE_MAX];
	struct environment e = { .used = 0 };

	if (jail_enter_guest(jail, message, sizeof(message)) != 0) {
		dprintf(jail->log_fd, "%s\n", message);
		_exit(126);
	}
	if (!keeper_own_monitor(&k->config))
		environment_fill(&k->config, &e);
	pass_files(&k->config);
	execve(args->argv[0], args->argv, e.env);
	dprintf(jail->log_fd, "Cannot execute %s: %s.\n", args->argv[0], strerror(errno));
	_exit(127);
}

static int start_qemu(struct keeper *k, const struct jail *jail)
{
	static struct qemu_args args;
	int err = keeper_own_monitor(&k->config) ? vmm_args_build(&args) : qemu_args_build(&args, &k->config);

	if (err)
		return err;
	k->qemu = fork();
	if (k->qemu == 0)
		exec_qemu(k, jail, &args);
	return k->qemu < 0 ? -errno : 0;
}

int keeper_setup(struct keeper *k, char *ret_message, size_t size)
{
	struct jail jail = { .preload = k->config.preload,
			     .program = keeper_own_monitor(&k->config) ? k->config.program : NULL,
			     .guest_uid = k->config.guest_uid,
			     .keeper_uid = k->config.keeper_uid,
			     .guest_cgroup_fd = KEEPER_FD_GUEST_CGROUP };
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
	if ((err = jail_build(&jail, ret_message, size)) != 0)
		return err;
	if ((err = start_qemu(k, &jail)) != 0)
		return fail(ret_message, size, err, "start QEMU");
	if ((err = oom_score_restore(&score)) != 0)
		return fail(ret_message, size, err, "restore the keeper's out-of-memory score");
	close(jail.log_fd);
	close(KEEPER_FD_GUEST_CGROUP);
	for (int fd = KEEPER_FD_AGENT; fd < KEEPER_FD_END; fd++)
		close(fd);
	return 0;
}
