#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail_filter.h"
#include "jail_limits.h"

#define BASE JAIL_BASE

enum { ALL = JAIL_QEMU | JAIL_VMM | JAIL_SPACE, MONITORS = JAIL_QEMU | JAIL_VMM };

struct step {
	unsigned kinds; /* that take it */
	const char *what;
	int (*run)(const struct jail *jail);
};

static int private_mounts(const struct jail *jail)
{
	(void)jail;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int mount_root(void)
{
	char options[64];

	snprintf(options, sizeof(options), "mode=0755,size=%dk", JAIL_ROOT_KB);
	return mount("none", BASE, "tmpfs", MS_NOSUID | MS_NODEV, options);
}

/* BASE may hide the preload, so it stays open across the mount. */
static int root_with_preload(const struct jail *jail)
{
	struct stat st;
	int in, out;

	in = open(jail->preload, O_RDONLY | O_CLOEXEC);
	if (in < 0 || fstat(in, &st) != 0 || mount_root() != 0)
		return -1;
	out = open(BASE JAIL_PRELOAD, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
	if (out < 0 || sendfile(out, in, NULL, (size_t)st.st_size) != st.st_size)
		return -1;
	close(in);
	return close(out);
}

/* Bound, not copied: all monitors share its pages. As above, by a descriptor. */
static int root_with_program(const struct jail *jail)
{
	int in = open(jail->program, O_PATH | O_CLOEXEC), at;
	char path[40];

	if (in < 0 || mount_root() != 0)
		return -1;
	at = open(BASE JAIL_PROGRAM, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
	if (at < 0 || close(at) != 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", in);
	if (mount(path, BASE JAIL_PROGRAM, NULL, MS_BIND, NULL) != 0)
		return -1;
	close(in);
	return mount(NULL, BASE JAIL_PROGRAM, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
}

static int root_with_nothing(const struct jail *jail)
{
	(void)jail;
	return mount_root();
}

static int bind_usr(const struct jail *jail)
{
	(void)jail;
	if (mkdir(BASE "/usr", 0755) != 0 || mount("/usr", BASE "/usr", NULL, MS_BIND, NULL) != 0)
		return -1;
	return mount(NULL, BASE "/usr", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
}

static int link_loader(const struct jail *jail)
{
	(void)jail;
	return symlink("usr/lib", BASE "/lib") != 0 || symlink("usr/lib64", BASE "/lib64") != 0 ? -1 : 0;
}

static int pivot(const struct jail *jail)
{
	(void)jail;
	if (chdir(BASE) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0)
		return -1;
	return chdir("/");
}

static int name_host(const struct jail *jail)
{
	const char *name = jail->kind == JAIL_SPACE ? jail->space.id : "carrel";

	return sethostname(name, strlen(name));
}

static int join_guest_cgroup(const struct jail *jail)
{
	return write(jail->guest_cgroup_fd, "0", 1) == 1 ? 0 : -1;
}

static int own_session(const struct jail *jail)
{
	(void)jail;
	return setsid() < 0 ? -1 : 0;
}

static int streams_to_log(const struct jail *jail)
{
	return dup2(jail->log_fd, STDOUT_FILENO) < 0 || dup2(jail->log_fd, STDERR_FILENO) < 0 ? -1 : 0;
}

static int default_signals(const struct jail *jail)
{
	sigset_t none;

	(void)jail;
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Never more than carrel-spawn was given: a host may not let it raise that. */
static rlim_t files_max(const struct jail *jail)
{
	const rlim_t want = jail->kind == JAIL_SPACE ? JAIL_SPACE_NOFILE_MAX : JAIL_NOFILE_MAX;
	struct rlimit have;

	return getrlimit(RLIMIT_NOFILE, &have) == 0 && have.rlim_max < want ? have.rlim_max : want;
}

static int limit_resources(const struct jail *jail)
{
	const rlim_t files = files_max(jail);
	const struct rlimit nofile = { files, files }, no_core = { 0, 0 };

	if (setrlimit(RLIMIT_NOFILE, &nofile) != 0)
		return -1;
	return setrlimit(RLIMIT_CORE, &no_core);
}

static int drop_bounding_set(const struct jail *jail)
{
	(void)jail;
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap) != 0)
			return -1;
	return 0;
}

static int filter_space(const struct jail *jail)
{
	int err = jail_filter_space();

	(void)jail;
	errno = -err;
	return err ? -1 : 0;
}

static int become(uid_t uid)
{
	if (setgroups(0, NULL) != 0 || setresgid(uid, uid, uid) != 0)
		return -1;
	return setresuid(uid, uid, uid);
}

static int become_guest(const struct jail *jail)
{
	return become(jail->guest_uid);
}

static int become_keeper(const struct jail *jail)
{
	return become(jail->keeper_uid);
}

/* The change of uid has cleared them; said once more so that it does not hang on that. */
static int drop_capabilities(const struct jail *jail)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	(void)jail;
	return (int)syscall(SYS_capset, &header, none);
}

static int no_new_privileges(const struct jail *jail)
{
	(void)jail;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* QEMU has loaded its libraries and firmware; what is mapped stays mapped. */
static int empty_root(const struct jail *jail)
{
	if (jail->kind == JAIL_VMM)
		return umount2(JAIL_PROGRAM, MNT_DETACH) != 0 || unlink(JAIL_PROGRAM) != 0 ? -1 : 0;
	if (umount2("/usr", MNT_DETACH) != 0 || rmdir("/usr") != 0 || unlink("/lib") != 0 ||
	    unlink("/lib64") != 0)
		return -1;
	return unlink(JAIL_PRELOAD);
}

static int read_only_root(const struct jail *jail)
{
	(void)jail;
	return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		     NULL);
}

static int filter_keeper(const struct jail *jail)
{
	int err = jail_filter_keeper();

	(void)jail;
	errno = -err;
	return err ? -1 : 0;
}

static int run_steps(const struct step *steps, const struct jail *jail, char *ret_message, size_t size)
{
	for (const struct step *step = steps; step->what; step++) {
		errno = 0;
		if (!(step->kinds & jail->kind) || step->run(jail) == 0)
			continue;
		int err = errno ? -errno : -EIO;
		snprintf(ret_message, size, "Cannot %s for the sandbox: %s.", step->what, strerror(-err));
		return err;
	}
	return 0;
}

int jail_build(const struct jail *jail, char *ret_message, size_t size)
{
	static const struct step steps[] = {
		{ ALL, "make the mounts private", private_mounts },
		{ JAIL_QEMU, "make an empty root with one file of ours in it", root_with_preload },
		{ JAIL_VMM, "make an empty root with carrel-vmm in it", root_with_program },
		{ JAIL_SPACE, "make an empty root", root_with_nothing },
		{ JAIL_QEMU, "bind /usr read-only", bind_usr },
		{ JAIL_QEMU, "link the program loader", link_loader },
		{ JAIL_SPACE, "map its image to its users (the kernel must have idmapped mounts)", space_image },
		{ JAIL_SPACE, "mount its disk (the kernel must have loop devices and ext4)", space_disk },
		{ JAIL_SPACE, "lay its disk over its image (the kernel must have overlay)", space_overlay },
		{ JAIL_SPACE, "make its /dev", space_dev },
		{ JAIL_SPACE, "make its /run", space_run },
		{ JAIL_SPACE, "make its /sys", space_sys },
		{ JAIL_SPACE, "show it its control groups", space_groups },
		{ JAIL_SPACE, "bring its loopback device up", space_loopback },
		{ ALL, "change the root", pivot },
		{ ALL, "set the host name", name_host },
		{ 0 },
	};

	return run_steps(steps, jail, ret_message, size);
}

int jail_enter_guest(const struct jail *jail, char *ret_message, size_t size)
{
	static const struct step steps[] = {
		{ ALL, "join the guest's control group", join_guest_cgroup },
		{ JAIL_SPACE, "make its own view of control groups", space_cgroup },
		{ JAIL_SPACE, "mount its /proc", space_proc },
		{ JAIL_SPACE, "set its out-of-memory score", space_score },
		{ JAIL_SPACE, "favour it over what it starts", space_favour },
		{ JAIL_SPACE, "hide what /proc shows of the host", space_mask },
		{ JAIL_SPACE, "give it its names", space_names },
		{ JAIL_SPACE, "make its root read-only", space_read_only },
		{ JAIL_SPACE, "change to its root", space_root },
		{ ALL, "start a session", own_session },
		{ ALL, "connect its messages to their log", streams_to_log },
		{ ALL, "reset the signals", default_signals },
		{ ALL, "limit descriptors and core files", limit_resources },
		{ JAIL_SPACE, "enter its user namespace", space_user },
		{ MONITORS, "drop the capability bounding set", drop_bounding_set },
		{ MONITORS, "change to the sandbox's own user", become_guest },
		{ MONITORS, "drop every capability", drop_capabilities },
		{ JAIL_SPACE, "drop the capabilities that the agent does not need", space_capabilities },
		{ ALL, "forbid new privileges", no_new_privileges },
		{ JAIL_SPACE, "filter its system calls", filter_space },
		{ 0 },
	};

	return run_steps(steps, jail, ret_message, size);
}

int jail_close(const struct jail *jail, char *ret_message, size_t size)
{
	static const struct step steps[] = {
		{ MONITORS, "empty the root", empty_root },
		{ JAIL_SPACE, "leave the sandbox's root", space_leave },
		{ ALL, "make the root read-only", read_only_root },
		{ ALL, "drop the keeper's capability bounding set", drop_bounding_set },
		{ ALL, "change the keeper's user", become_keeper },
		{ ALL, "drop the keeper's capabilities", drop_capabilities },
		{ ALL, "forbid the keeper new privileges", no_new_privileges },
		{ ALL, "filter the keeper's system calls", filter_keeper },
		{ 0 },
	};

	return run_steps(steps, jail, ret_message, size);
}
