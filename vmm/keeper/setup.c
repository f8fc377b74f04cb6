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
					 .memory_group = c->memory_group,
					 .read_only = c->read_only } };
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
	if ((err = keeper_child_start(k, &jail)) != 0)
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
