/* SPAWN_START: directory, sockets, control group, then the keeper. What fails
 * on the way takes everything before it away again. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/jail/jail_limits.h"

/* Above every number of enum keeper_fd. */
enum { HIGH_FD = 64 };
/* One connection is served at a time; others wait there. */
enum { SOCKET_BACKLOG = 4 };
static_assert((int)HIGH_FD >= (int)KEEPER_FD_END, "keeper descriptors lie below");

/* What the keeper gets, by number; -1: nothing. */
struct keeper_fds {
	int fds[KEEPER_FD_END];
};

static void fds_init(struct keeper_fds *f)
{
	for (int i = 0; i < KEEPER_FD_END; i++)
		f->fds[i] = -1;
}

/* The files of the request stay the client's; mounts of them are ours. */
static void fds_close(struct keeper_fds *f, const int *files)
{
	for (int i = 0; i < KEEPER_FD_END; i++)
		if (f->fds[i] >= 0 && (i < KEEPER_FD_FILES || f->fds[i] != files[i - KEEPER_FD_FILES]))
			close(f->fds[i]);
}

static int fail(char *ret_message, int err, const char *what)
{
	snprintf(ret_message, SPAWN_MESSAGE_MAX, "Cannot %s for the sandbox: %s.", what, strerror(-err));
	return err;
}

static int put(struct keeper_fds *f, enum keeper_fd which, int fd)
{
	if (fd < 0)
		return fd;
	f->fds[which] = fd;
	return 0;
}

static int open_control(int dir, struct keeper_fds *f)
{
	if (listen(f->fds[KEEPER_FD_AGENT], SOCKET_BACKLOG) != 0)
		return -errno;
	return put(f, KEEPER_FD_CONTROL, rundir_socket(dir, "keeper.sock", SOCK_SEQPACKET, 0));
}

static int open_sockets(const struct spawn *s, const struct spawn_request *request, int dir, struct keeper_fds *f)
{
	const bool own = request->engine == SPAWN_ENGINE_KVM;
	const char *monitor = own ? "control.sock" : "qmp.sock";
	const int type = own ? SOCK_SEQPACKET : SOCK_STREAM;
	uid_t client = s->options.client_uid;
	int err;

	err = put(f, KEEPER_FD_AGENT, rundir_socket(dir, "agent.sock", SOCK_STREAM, client));
	if (!err && request->engine == SPAWN_ENGINE_JAIL)
		return open_control(dir, f);
	if (!err)
		err = put(f, KEEPER_FD_MONITOR, rundir_socket(dir, monitor, type, client));
	if (!err)
		err = open_control(dir, f);
	if (err)
		return err;
	if (listen(f->fds[KEEPER_FD_MONITOR], SOCKET_BACKLOG) != 0)
		return -errno;
	return put(f, KEEPER_FD_READY, rundir_connect(dir, monitor, type));
}

static int open_files(const struct spawn *s, int dir, struct keeper_fds *f)
{
	gid_t gid = s->options.client_gid;
	int err;

	err = put(f, KEEPER_FD_REASON, rundir_file(dir, "reason", gid));
	if (!err)
		err = put(f, KEEPER_FD_CONSOLE_LOG, rundir_file(dir, "console.log", gid));
	if (!err)
		err = put(f, KEEPER_FD_QEMU_LOG, rundir_file(dir, "qemu.log", gid));
	return err;
}

static int open_cgroup(const struct sandbox *b, struct keeper_fds *f)
{
	int err;

	err = put(f, KEEPER_FD_GUEST_CGROUP, cgroup_open_guest(&b->cgroup));
	if (!err)
		err = put(f, KEEPER_FD_THAW, cgroup_open_thaw(&b->cgroup));
	if (!err)
		err = put(f, KEEPER_FD_MEMORY_EVENTS, cgroup_open_memory_events(&b->cgroup));
	return err;
}

static int open_kvm(const struct spawn_request *request, struct keeper_fds *f)
{
	int fd;

	if (request->engine != SPAWN_ENGINE_QEMU_KVM && request->engine != SPAWN_ENGINE_KVM)
		return 0;
	fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	return put(f, KEEPER_FD_KVM, fd < 0 ? -errno : fd);
}

static uid_t jail_users(const struct spawn *s, const struct sandbox *b)
{
	return s->options.uid_base + SPAWN_UIDS_JAIL + b->slot * JAIL_SPACE_UIDS;
}

/* In place of the files of its image, mounts of them. */
static int open_images(struct spawn *s, const struct spawn_request *request, struct keeper_fds *f)
{
	static const enum spawn_fd images[] = { SPAWN_FD_ROOTFS, SPAWN_FD_GUEST };
	int err = 0;

	if (request->engine != SPAWN_ENGINE_JAIL)
		return 0;
	for (size_t i = 0; !err && i < sizeof(images) / sizeof(*images); i++) {
		enum keeper_fd which = KEEPER_FD_FILES + images[i];

		err = put(f, which, images_mount(&s->images, s->options.run_dir, f->fds[which]));
	}
	return err;
}

static void config_fill(const struct spawn *s, const struct sandbox *b, const struct spawn_request *r,
			struct keeper_config *ret)
{
	*ret = (struct keeper_config){
		.version = KEEPER_VERSION,
		.engine = r->engine,
		.mode = r->mode,
		.fds_mask = r->fds_mask,
		.memory_mb = r->memory_mb,
		.vcpus = r->vcpus,
		.tsc_khz = r->tsc_khz,
		.guest_uid = s->options.uid_base + b->slot,
		.keeper_uid = s->options.uid_base + SPAWN_SANDBOXES_MAX + b->slot,
		.deadline_boottime_ns = r->deadline_boottime_ns,
	};
	memcpy(ret->id, b->id, sizeof(ret->id));
	snprintf(ret->thaw, sizeof(ret->thaw), "%s", cgroup_thaw_text(&b->cgroup));
	if (keeper_no_monitor(ret)) {
		ret->users_base = jail_users(s, b);
		ret->read_only = s->options.jail_read_only;
		if (b->cgroup.version == 1) {
			memcpy(ret->pids_group, b->cgroup.dirs[CGROUP_PIDS], CGROUP_PATH_MAX);
			memcpy(ret->memory_group, b->cgroup.dirs[CGROUP_MEMORY], CGROUP_PATH_MAX);
		}
		return;
	}
	if (keeper_own_monitor(ret)) {
		snprintf(ret->program, sizeof(ret->program), "%s", s->options.vmm);
		return;
	}
	snprintf(ret->program, sizeof(ret->program), "%s", s->options.qemu);
	snprintf(ret->preload, sizeof(ret->preload), "%s", s->options.preload);
}

/* In the child. Source numbers may collide with targets: first all go high. */
static int place_fds(const struct keeper_fds *f)
{
	int high[KEEPER_FD_END], null = open("/dev/null", O_RDWR);

	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return -errno;
	for (int i = KEEPER_FD_PARENT; i < KEEPER_FD_END; i++) {
		high[i] = f->fds[i] < 0 ? -1 : fcntl(f->fds[i], F_DUPFD, HIGH_FD);
		if (f->fds[i] >= 0 && high[i] < 0)
			return -errno;
	}
	for (int i = KEEPER_FD_PARENT; i < KEEPER_FD_END; i++) {
		if (high[i] < 0)
			close(i);
		else if (dup2(high[i], i) < 0)
			return -errno;
	}
	return syscall(SYS_close_range, KEEPER_FD_END, ~0u, 0) != 0 ? -errno : 0;
}

static void __attribute__((noreturn)) child_fail(int err, const char *what)
{
	struct keeper_reply reply = { .version = KEEPER_VERSION, .verb = KEEPER_STARTED, .error = err };

	fail(reply.message, err, what);
	send(KEEPER_FD_PARENT, &reply, sizeof(reply), MSG_NOSIGNAL);
	_exit(1);
}

static void __attribute__((noreturn))
child_run(const struct spawn *s, const struct sandbox *b, const struct keeper_fds *f)
{
	char name[] = "carrel-keeper", id[SPAWN_ID_MAX];
	char *argv[] = { name, id, NULL }, *env[] = { NULL };
	sigset_t none;
	int err, enter;

	memcpy(id, b->id, sizeof(id));
	/* Before place_fds(), which may close a standard library's idea of files. */
	enter = cgroup_enter(&b->cgroup);
	err = place_fds(f);
	if (err || enter)
		child_fail(err ? err : enter, enter ? "enter the control group" : "pass descriptors");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (setsid() < 0)
		child_fail(-errno, "start a session");
	execve(s->options.keeper, argv, env);
	child_fail(-errno, "execute carrel-keeper");
}

/* The namespaces of the sandbox: new with the keeper, which is process 1 in there. */
static int clone_keeper(const struct spawn *s, const struct sandbox *b, const struct keeper_fds *f,
			int *ret_pidfd)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags =
			CLONE_PIDFD | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		child_run(s, b, f);
	if (pid < 0)
		return -errno;
	*ret_pidfd = pidfd;
	return 0;
}

static int start_keeper(struct spawn *s, struct sandbox *b, const struct spawn_request *request,
			struct keeper_fds *f, char *ret_message)
{
	struct keeper_config config;
	int pair[2], pidfd = -1, err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return fail(ret_message, -errno, "make a socket pair");
	f->fds[KEEPER_FD_PARENT] = pair[1];
	config_fill(s, b, request, &config);
	if (send(pair[0], &config, sizeof(config), MSG_NOSIGNAL) != (ssize_t)sizeof(config)) {
		err = -errno;
		close(pair[0]);
		return fail(ret_message, err, "configure the keeper");
	}
	err = clone_keeper(s, b, f, &pidfd);
	if (err) {
		close(pair[0]);
		return fail(ret_message, err, "start the keeper in new namespaces");
	}
	err = sandbox_watch(s, b, pair[0], pidfd);
	if (!err)
		return 0;
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	return fail(ret_message, err, "watch the keeper");
}

static int make_files(struct spawn *s, struct sandbox *b, const struct spawn_request *r, int dir,
		      struct keeper_fds *f, char *ret_message)
{
	const bool jail = r->engine == SPAWN_ENGINE_JAIL;
	const uint64_t write_bytes_s = s->disk ? (uint64_t)s->options.write_mb_s << 20 : 0;
	const struct cgroup_limits limits = { .memory_bytes = (uint64_t)r->host_memory_mb << 20,
					      .cpu_milli = r->host_cpu_milli,
					      .pids = jail ? JAIL_SPACE_PIDS_MAX : JAIL_PIDS_MAX,
					      .disk = s->disk,
					      .write_bytes_s = write_bytes_s,
					      .read_bytes_s = write_bytes_s * SPAWN_READS_PER_WRITE };
	struct rundir_record record = { .slot = b->slot, .engine = r->engine };
	int err;

	err = cgroup_make(&b->cgroup, &s->base, b->id, &limits);
	if (err)
		return fail(ret_message, err, "make a control group");
	record.cgroup = b->cgroup;
	record.ram_dev = b->ram_dev;
	record.ram_ino = b->ram_ino;
	if ((err = rundir_record_write(dir, &record)) != 0)
		return fail(ret_message, err, "write the record");
	if ((err = open_sockets(s, r, dir, f)) != 0)
		return fail(ret_message, err, "make the sockets");
	if ((err = open_files(s, dir, f)) != 0)
		return fail(ret_message, err, "make the log files");
	if ((err = open_cgroup(b, f)) != 0)
		return fail(ret_message, err, "open the control group");
	if ((err = open_kvm(r, f)) != 0)
		return fail(ret_message, err, "open /dev/kvm");
	if ((err = open_images(s, r, f)) != 0)
		return fail(ret_message, err, "mount its image (the host needs loop devices and ext4)");
	if (jail && (err = cgroup_delegate(&b->cgroup, jail_users(s, b), (uint64_t)r->memory_mb << 20)) != 0)
		return fail(ret_message, err, "hand the control group over");
	return 0;
}

static struct sandbox *sandbox_new(struct spawn *s, const char *id)
{
	for (uint32_t slot = 0; slot < SPAWN_SANDBOXES_MAX; slot++) {
		struct sandbox *b;

		if (s->sandboxes[slot])
			continue;
		b = calloc(1, sizeof(*b));
		if (!b)
			return NULL;
		b->slot = slot;
		b->keeper.fd = b->exit.fd = b->copy.fd = -1;
		memcpy(b->id, id, sizeof(b->id));
		s->sandboxes[slot] = b;
		return b;
	}
	return NULL;
}

/* The operator's word, which a carreld that was taken over does not change. */
static bool jail_denied(const struct spawn *s, uint32_t engine)
{
	return engine == SPAWN_ENGINE_JAIL && !s->options.jail;
}

static bool monitor_missing(const struct spawn *s, uint32_t engine)
{
	if (engine == SPAWN_ENGINE_JAIL)
		return false;
	return engine == SPAWN_ENGINE_KVM ? !s->options.vmm : !s->options.qemu[0];
}

int sandbox_start(struct spawn *s, const struct spawn_request *request, const int *fds,
		  const struct pending *asker, char *ret_message)
{
	struct keeper_fds f;
	struct sandbox *b;
	struct stat ram;
	int dir, err;

	if (s->exiting)
		return fail(ret_message, -ESHUTDOWN, "start anything while carrel-spawn ends");
	if (jail_denied(s, request->engine))
		return fail(ret_message, -EACCES, "use the engine jail, which the settings ENGINE and ALLOW_JAIL do not allow,");
	if (monitor_missing(s, request->engine))
		return fail(ret_message, -EOPNOTSUPP, "find the monitor, QEMU or carrel-vmm,");
	groups_taken(s, request->id);
	dir = rundir_make(s->run_fd, request->id, s->options.client_gid);
	if (dir < 0)
		return fail(ret_message, dir, "make a runtime directory");
	fds_init(&f);
	for (int i = 0; i < SPAWN_FD_COUNT; i++)
		f.fds[KEEPER_FD_FILES + i] = fds[i];
	b = sandbox_new(s, request->id);
	if (!b) {
		err = fail(ret_message, -EAGAIN, "find a free user id");
	} else {
		if (fds[SPAWN_FD_RAM] >= 0 && spawn_mode_clones(request->mode) && fstat(fds[SPAWN_FD_RAM], &ram) == 0) {
			b->ram_dev = ram.st_dev;
			b->ram_ino = ram.st_ino;
		}
		err = make_files(s, b, request, dir, &f, ret_message);
		if (!err)
			err = start_keeper(s, b, request, &f, ret_message);
	}
	fds_close(&f, fds);
	close(dir);
	if (!err) {
		b->pending[b->pending_count++] = *asker;
		return 1;
	}
	if (b && b->cgroup.version)
		cgroup_remove(&b->cgroup);
	rundir_remove(s->run_fd, request->id);
	if (b)
		sandbox_free(s, b);
	return err;
}
