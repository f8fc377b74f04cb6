/* Into the sandbox: what its process 1 does before it is the agent. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail.h"
#include "space.h"

#define ROOT "/root"

/* The group that it is in is the top of what it sees. */
int space_cgroup(const struct jail *jail)
{
	if (unshare(CLONE_NEWCGROUP) != 0)
		return -1;
	if (jail->space.pids_group[0])
		return 0; /* space_groups() */
	return mount("cgroup2", ROOT "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

int space_proc(const struct jail *jail)
{
	(void)jail;
	return mount("proc", ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* An agent that is spared like any other process; what it starts goes above. With the right to it, this is
 * the least that anybody inside can set. */
int space_score(const struct jail *jail)
{
	int fd = open(ROOT "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	(void)jail;
	if (fd < 0 || write(fd, "0", 1) != 1)
		return -1;
	return close(fd);
}

/* Among the sandbox's own processes: hundreds that compute must not keep the agent from ending them. On
 * version 1 nothing else would. What it starts has none of it. */
int space_favour(const struct jail *jail)
{
	(void)jail;
	return setpriority(PRIO_PROCESS, 0, PRIO_MIN);
}

static int hide(const char *path)
{
	struct stat st;
	int err;

	/* What this kernel does not have need not be hidden. */
	if (stat(path, &st) != 0)
		return errno == ENOENT ? 0 : -1;
	if (S_ISDIR(st.st_mode))
		err = mount("none", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=0,mode=0555");
	else
		err = mount(ROOT "/dev/null", path, NULL, MS_BIND, NULL);
	return err;
}

static int seal(const char *path)
{
	if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) != 0)
		return errno == ENOENT ? 0 : -1;
	return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* What tells of the host, or is a switch of it. Belongs to the host's root besides. */
int space_mask(const struct jail *jail)
{
	static const char *const hidden[] = {
		ROOT "/proc/acpi",	ROOT "/proc/asound",	 ROOT "/proc/interrupts",
		ROOT "/proc/kcore",	ROOT "/proc/keys",	 ROOT "/proc/key-users",
		ROOT "/proc/kallsyms",	ROOT "/proc/kmsg",	 ROOT "/proc/latency_stats",
		ROOT "/proc/modules",	ROOT "/proc/pressure",	 ROOT "/proc/sched_debug",
		ROOT "/proc/scsi",	ROOT "/proc/slabinfo",	 ROOT "/proc/softirqs",
		ROOT "/proc/timer_list", ROOT "/proc/vmallocinfo", ROOT "/proc/sysrq-trigger",
		ROOT "/proc/mtrr",	ROOT "/proc/diskstats",	 ROOT "/proc/partitions",
		ROOT "/proc/cmdline",	ROOT "/proc/config.gz",	 ROOT "/proc/swaps",
		ROOT "/proc/dynamic_debug",
	};
	static const char *const sealed[] = { ROOT "/proc/bus", ROOT "/proc/fs", ROOT "/proc/irq",
					      ROOT "/proc/sys", ROOT "/proc/driver", ROOT "/proc/tty" };

	(void)jail;
	for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden); i++)
		if (hide(hidden[i]) != 0)
			return -1;
	for (size_t i = 0; i < sizeof(sealed) / sizeof(*sealed); i++)
		if (seal(sealed[i]) != 0)
			return -1;
	return 0;
}

/* An empty file that the agent writes, over what programs read. */
static int name_bind(const struct jail *jail, const char *file, const char *over)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0 || fchown(fd, jail->space.base, jail->space.base) != 0 || close(fd) != 0)
		return -1;
	return mount(file, over, NULL, MS_BIND, NULL);
}

/* Where its own may not mount, it finds mounted what it would have. */
int space_names(const struct jail *jail)
{
	const uid_t base = jail->space.base;

	if (mkdir(ROOT "/run/carrel", 0755) != 0 || chown(ROOT "/run/carrel", base, base) != 0)
		return -1;
	if (name_bind(jail, ROOT "/run/carrel/machine-id", ROOT "/etc/machine-id") != 0)
		return -1;
	return name_bind(jail, ROOT "/run/carrel/boot_id", ROOT "/proc/sys/kernel/random/boot_id");
}

/* The flags are the mount's, not the file system's: the folders, mounts of their own, stay as they are. */
int space_read_only(const struct jail *jail)
{
	static const char *const writable[] = { ROOT "/home", ROOT "/tmp", ROOT "/var/tmp" };

	if (!jail->space.read_only)
		return 0;
	for (size_t i = 0; i < sizeof(writable) / sizeof(*writable); i++)
		if (mount(writable[i], writable[i], NULL, MS_BIND, NULL) != 0)
			return -1;
	/* The agent gives it its name. */
	if (name_bind(jail, ROOT "/run/carrel/hosts", ROOT "/etc/hosts") != 0 ||
	    name_bind(jail, ROOT "/run/carrel/hostname", ROOT "/etc/hostname") != 0)
		return -1;
	return mount(NULL, ROOT, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOATIME | MS_NODEV | MS_NOSUID, NULL);
}

int space_root(const struct jail *jail)
{
	(void)jail;
	if (chdir(ROOT) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0)
		return -1;
	return chdir("/");
}

/* From here on root is root among the sandbox's own users and files only. */
int space_user(const struct jail *jail)
{
	if (setns(jail->space.user_fd, CLONE_NEWUSER) != 0)
		return -1;
	if (setgroups(0, NULL) != 0 || setresgid(0, 0, 0) != 0)
		return -1;
	return setresuid(0, 0, 0);
}

/* To act as the sandbox's user and on its files, to end its processes and to look at them in /proc. */
#define KEPT \
	(1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID | 1u << CAP_KILL | \
	 1u << CAP_SETGID | 1u << CAP_SETUID | 1u << CAP_SYS_PTRACE)

int space_capabilities(const struct jail *jail)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct kept[2] = { { .effective = KEPT, .permitted = KEPT } };

	(void)jail;
	for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (!(cap < 32 && (KEPT & 1u << cap)) && prctl(PR_CAPBSET_DROP, cap) != 0)
			return -1;
	return (int)syscall(SYS_capset, &header, kept);
}
