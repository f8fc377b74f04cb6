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

/* Any directory that every host has: the new root is put together on top of it. */
#define BASE "/tmp"

struct step {
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

static int make_root(const struct jail *jail)
{
	return jail->program ? root_with_program(jail) : root_with_preload(jail);
}

static int bind_usr(const struct jail *jail)
{
	if (jail->program)
		return 0;
	if (mkdir(BASE "/usr", 0755) != 0 || mount("/usr", BASE "/usr", NULL, MS_BIND, NULL) != 0)
		return -1;
	return mount(NULL, BASE "/usr", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
}

static int link_loader(const struct jail *jail)
{
	if (jail->program)
		return 0;
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
	(void)jail;
	return sethostname("carrel", strlen("carrel"));
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

static int limit_resources(const struct jail *jail)
{
	const struct rlimit nofile = { JAIL_NOFILE_MAX, JAIL_NOFILE_MAX }, no_core = { 0, 0 };

	(void)jail;
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
	if (jail->program)
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
		if (step->run(jail) == 0)
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
		{ "make the mounts private", private_mounts },
		{ "make an empty root with one file of ours in it", make_root },
		{ "bind /usr read-only", bind_usr },
		{ "link the program loader", link_loader },
		{ "change the root", pivot },
		{ "set the host name", name_host },
		{ 0 },
	};

	return run_steps(steps, jail, ret_message, size);
}

int jail_enter_guest(const struct jail *jail, char *ret_message, size_t size)
{
	static const struct step steps[] = {
		{ "join the guest's control group", join_guest_cgroup },
		{ "start a session", own_session },
		{ "connect its messages to their log", streams_to_log },
		{ "reset the signals", default_signals },
		{ "limit descriptors and core files", limit_resources },
		{ "drop the capability bounding set", drop_bounding_set },
		{ "change to the sandbox's own user", become_guest },
		{ "drop every capability", drop_capabilities },
		{ "forbid new privileges", no_new_privileges },
		{ 0 },
	};

	return run_steps(steps, jail, ret_message, size);
}

int jail_close(const struct jail *jail, char *ret_message, size_t size)
{
	static const struct step steps[] = {
		{ "empty the root", empty_root },
		{ "make the root read-only", read_only_root },
		{ "drop the keeper's capability bounding set", drop_bounding_set },
		{ "change the keeper's user", become_keeper },
		{ "drop the keeper's capabilities", drop_capabilities },
		{ "forbid the keeper new privileges", no_new_privileges },
		{ "filter the keeper's system calls", filter_keeper },
		{ 0 },
	};

	return run_steps(steps, jail, ret_message, size);
}
