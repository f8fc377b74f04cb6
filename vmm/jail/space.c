/* The sandbox's root: what its keeper does, with the host's rights. */
#include "space.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup.h"
#include "jail.h"
#include "jail_limits.h"
#include "loop.h"

#define ROOT JAIL_BASE "/root"

enum { TTY_GROUP = 5 }; /* Debian's */

static int map_write(int proc, const char *file, uid_t base)
{
	char text[64];
	int fd = openat(proc, file, O_WRONLY | O_CLOEXEC), n, err;

	if (fd < 0)
		return -errno;
	n = snprintf(text, sizeof(text), "0 %u %d\n", base, JAIL_SPACE_UIDS);
	err = write(fd, text, (size_t)n) == n ? 0 : -errno;
	close(fd);
	return err;
}

/* Who makes the namespace is on the host's books for what all of its users take together: watches of files above
 * all, of which the host's root has 128 for himself and everybody. So a sandbox's own user makes it. */
static int owner_become(uid_t base)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	if (setresuid((uid_t)-1, base, (uid_t)-1) != 0 || syscall(SYS_capget, &header, caps) != 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		caps[i].effective = caps[i].permitted;
	return syscall(SYS_capset, &header, caps) != 0 ? -errno : 0;
}

/* What the child has opened, in the table of descriptors that it shares, or why not. */
struct user_answer {
	int proc, user, err;
};

/* What its own number is in here says nothing to the host's /proc, so it opens its own
 * directory there; and its namespace, which only a process with rights over it could open. */
static void __attribute__((noreturn)) user_child(int ready_fd, uid_t base)
{
	struct user_answer answer = { .proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC), .user = -1 };

	answer.err = answer.proc < 0 ? -errno : owner_become(base);
	if (!answer.err && unshare(CLONE_NEWUSER) != 0)
		answer.err = -errno;
	if (!answer.err && (answer.user = openat(answer.proc, "ns/user", O_RDONLY | O_CLOEXEC)) < 0)
		answer.err = -errno;
	if (write(ready_fd, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
		_exit(1);
	for (;;)
		pause();
}

static int user_of(int ready_fd, uid_t base)
{
	struct user_answer answer = { .proc = -1, .user = -1 };
	int err;

	if (read(ready_fd, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
		return -EIO;
	err = answer.err;
	if (!err)
		err = map_write(answer.proc, "uid_map", base);
	if (!err)
		err = map_write(answer.proc, "gid_map", base);
	if (answer.proc >= 0)
		close(answer.proc);
	if (err && answer.user >= 0)
		close(answer.user);
	return err ? err : answer.user;
}

/* A child is in it until it has a descriptor. */
int space_user_make(uid_t base)
{
	int ready[2], fd;
	long pid;

	if (pipe2(ready, O_CLOEXEC) != 0)
		return -errno;
	pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		user_child(ready[1], base);
	fd = pid < 0 ? -errno : user_of(ready[0], base);
	if (pid > 0) {
		kill((pid_t)pid, SIGKILL);
		waitpid((pid_t)pid, NULL, 0);
	}
	close(ready[0]);
	close(ready[1]);
	return fd;
}

static int attach(int mount_fd, const char *path)
{
	if (mkdir(path, 0755) != 0 && errno != EEXIST)
		return -1;
	return (int)syscall(SYS_move_mount, mount_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);
}

/* Its files show their owners as the sandbox's users. */
static int attach_mapped(int mount_fd, int user_fd, const char *path)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV |
					       MOUNT_ATTR_NOSUID,
				   .userns_fd = (unsigned)user_fd };

	if (syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) != 0)
		return -1;
	return attach(mount_fd, path);
}

int space_image(const struct jail *jail)
{
	const struct space *s = &jail->space;

	if (attach_mapped(s->rootfs_fd, s->user_fd, JAIL_BASE "/image") != 0)
		return -1;
	return attach_mapped(s->guest_fd, s->user_fd, JAIL_BASE "/guest");
}

/* Not mapped: it is the sandbox's alone, and its owners are written as the host knows them. */
int space_disk(const struct jail *jail)
{
	const uid_t base = jail->space.base;
	int fd = loop_mount(jail->space.disk_fd, true);

	if (fd < 0) {
		errno = -fd;
		return -1;
	}
	if (attach(fd, JAIL_BASE "/disk") != 0)
		return -1;
	close(fd);
	if (mkdir(JAIL_BASE "/disk/upper", 0755) != 0 || mkdir(JAIL_BASE "/disk/work", 0755) != 0)
		return -1;
	return chown(JAIL_BASE "/disk/upper", base, base);
}

/* volatile: the disk does not outlive its sandbox, so nobody waits for it to be written. */
int space_overlay(const struct jail *jail)
{
	(void)jail;
	if (mkdir(ROOT, 0755) != 0)
		return -1;
	return mount("overlay", ROOT, "overlay", MS_NOATIME | MS_NODEV | MS_NOSUID,
		     "lowerdir=" JAIL_BASE "/guest:" JAIL_BASE "/image,upperdir=" JAIL_BASE
		     "/disk/upper,workdir=" JAIL_BASE "/disk/work,redirect_dir=on,volatile");
}

/* A memory file system that belongs to the sandbox's root. */
static int tmpfs(const struct jail *jail, const char *path, unsigned long flags, const char *options)
{
	char text[128];

	snprintf(text, sizeof(text), "uid=%u,gid=%u,%s", jail->space.base, jail->space.base, options);
	if (mkdir(path, 0755) != 0 && errno != EEXIST)
		return -1;
	return mount("none", path, "tmpfs", flags | MS_NOSUID, text);
}

static int nodes_make(void)
{
	static const struct {
		const char *path;
		unsigned minor, major;
	} nodes[] = {
		{ ROOT "/dev/null", 3, 1 },    { ROOT "/dev/zero", 5, 1 },   { ROOT "/dev/full", 7, 1 },
		{ ROOT "/dev/random", 8, 1 },  { ROOT "/dev/urandom", 9, 1 }, { ROOT "/dev/tty", 0, 5 },
	};

	for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++)
		if (mknod(nodes[i].path, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) != 0 ||
		    chmod(nodes[i].path, 0666) != 0)
			return -1;
	return 0;
}

static int links_make(void)
{
	static const struct {
		const char *target, *path;
	} links[] = {
		{ "pts/ptmx", ROOT "/dev/ptmx" },
		{ "/proc/self/fd", ROOT "/dev/fd" },
		{ "/proc/self/fd/0", ROOT "/dev/stdin" },
		{ "/proc/self/fd/1", ROOT "/dev/stdout" },
		{ "/proc/self/fd/2", ROOT "/dev/stderr" },
	};

	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		if (symlink(links[i].target, links[i].path) != 0)
			return -1;
	return 0;
}

/* Devices that hold nothing; nobody inside can make another. */
int space_dev(const struct jail *jail)
{
	char options[64];

	if (tmpfs(jail, ROOT "/dev", MS_NOEXEC, "mode=0755,size=64k") != 0 || nodes_make() != 0 ||
	    links_make() != 0 || mkdir(ROOT "/dev/pts", 0755) != 0)
		return -1;
	snprintf(options, sizeof(options), "newinstance,mode=0620,ptmxmode=0666,gid=%u", jail->space.base + TTY_GROUP);
	if (mount("devpts", ROOT "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options) != 0)
		return -1;
	/* As a guest's kernel has it by itself: more would leave no room for who removes it again. */
	snprintf(options, sizeof(options), "mode=1777,size=%um", jail->space.memory_mb / 2);
	return tmpfs(jail, ROOT "/dev/shm", MS_NODEV, options);
}

int space_run(const struct jail *jail)
{
	char options[64];

	snprintf(options, sizeof(options), "mode=0755,size=%dm", JAIL_SPACE_RUN_MB);
	return tmpfs(jail, ROOT "/run", MS_NODEV, options);
}

static int bind_read_only(const char *from, const char *to)
{
	if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0)
		return -1;
	return mount(NULL, to, NULL,
		     MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* Of the host's devices it shows the processors, by which programs choose how many threads they start. */
int space_sys(const struct jail *jail)
{
	static const char *const made[] = { ROOT "/sys/devices", ROOT "/sys/devices/system",
					    ROOT "/sys/devices/system/cpu", ROOT "/sys/fs",
					    ROOT "/sys/fs/cgroup" };

	if (tmpfs(jail, ROOT "/sys", MS_NODEV | MS_NOEXEC, "mode=0755,size=64k") != 0)
		return -1;
	for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++)
		if (mkdir(made[i], 0755) != 0)
			return -1;
	return bind_read_only("/sys/devices/system/cpu", ROOT "/sys/devices/system/cpu");
}

/* One file of the group that its work's memory is limited in. */
static int memory_file(const struct space *s, const char *file, const char *to)
{
	char from[512];
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

	if (fd < 0)
		return -1;
	close(fd);
	snprintf(from, sizeof(from), "%s/" CGROUP_V1_WORK "/%s", s->memory_group, file);
	return mount(from, to, NULL, MS_BIND, NULL);
}

/* Version 1 is not mounted anew: its own group of processes, and what the agent needs to know and do with memory. */
int space_groups(const struct jail *jail)
{
	const struct space *s = &jail->space;

	if (!s->pids_group[0])
		return 0;
	if (memory_file(s, "memory.oom_control", ROOT "/sys/fs/memory.oom_control") != 0 ||
	    memory_file(s, "cgroup.procs", ROOT "/sys/fs/memory.procs") != 0)
		return -1;
	return mount(s->pids_group, ROOT "/sys/fs/cgroup", NULL, MS_BIND, NULL);
}

int space_loopback(const struct jail *jail)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;
	struct ifreq request = { .ifr_name = "lo" };

	(void)jail;
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) != 0)
		return -1;
	request.ifr_flags |= IFF_UP | IFF_RUNNING;
	err = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return err;
}

/* Process 1 has them; here they would outlive it. */
int space_leave(const struct jail *jail)
{
	static const char *const mounts[] = { "/root", "/disk", "/guest", "/image" };

	(void)jail;
	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++)
		if (umount2(mounts[i], MNT_DETACH) != 0 || rmdir(mounts[i]) != 0)
			return -1;
	return 0;
}
