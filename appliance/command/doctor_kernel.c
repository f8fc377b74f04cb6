/* What carrel doctor asks of the processor and the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"

/* Debian 12's; older ones were never tried. */
enum { KERNEL_MAJOR = 6, KERNEL_MINOR = 1 };

/* "svm", "vmx" or NULL. */
static const char *virtualisation(void)
{
	char *text = text_file("/proc/cpuinfo"), *flags = text ? strstr(text, "\nflags") : NULL;
	const char *found = NULL;

	if (flags) {
		flags[1 + strcspn(flags + 1, "\n")] = '\0';
		for (char *word = strtok(flags, " \t\n:"); word && !found; word = strtok(NULL, " \t\n:"))
			found = strcmp(word, "svm") == 0 ? "svm" : strcmp(word, "vmx") == 0 ? "vmx" : NULL;
	}
	free(text);
	return found;
}

void look_processor(struct command *c, struct finding *f)
{
	const char *virt = virtualisation();
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct utsname u;

	(void)c;
	uname(&u);
	if (strcmp(u.machine, "x86_64") != 0) {
		finding_set(f, LEVEL_MISSING, "%s", u.machine);
		finding_follows(f, "Images and engines are made for x86_64 only.");
		return;
	}
	finding_set(f, virt ? LEVEL_OK : LEVEL_WARNING, "x86_64, %ld processors, %s", cpus,
		    !virt                      ? "no hardware virtualisation"
		    : strcmp(virt, "svm") == 0 ? "AMD SVM"
					       : "Intel VT-x");
	if (!virt)
		finding_follows(f, "Only the engine tcg can run here; in a virtual machine, ask for nested "
				   "virtualisation, elsewhere switch it on in the firmware.");
}

static const char slow[] =
	"Sandboxes run in software (engine tcg): plain Python is 12 to 16 times slower than "
	"native, and QEMU's project does not count tcg as a security boundary.";

void look_kvm(struct command *c, struct finding *f)
{
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = -1, err = errno;

	(void)c;
	if (fd < 0 && err == EACCES) {
		finding_set(f, LEVEL_WARNING, "/dev/kvm is there, but not for you");
		finding_follows(
			f,
			"make run opens it as root, so this matters only to you: join its group (%s), "
			"or call doctor with sudo to see whether it works.",
			"kvm");
		return;
	}
	if (fd < 0) {
		finding_set(f, LEVEL_WARNING, "/dev/kvm cannot be opened: %s", strerror(err));
		finding_follows(f, "%s", slow);
		return;
	}
	if (ioctl(fd, KVM_GET_API_VERSION, 0) == KVM_API_VERSION)
		vm = ioctl(fd, KVM_CREATE_VM, 0);
	if (vm >= 0 && virtualisation()) {
		finding_set(f, LEVEL_OK, "/dev/kvm makes virtual machines");
		finding_follows(f, "Sandboxes run at the processor's speed behind hardware virtualisation.");
	} else {
		finding_set(f, LEVEL_WARNING, "/dev/kvm opens, but %s",
			    vm < 0 ? "makes no virtual machine" : "the processor shows neither SVM nor VMX");
		finding_follows(f, "%s", slow);
	}
	if (vm >= 0)
		close(vm);
	close(fd);
}

void look_kernel(struct command *c, struct finding *f)
{
	int major = 0, minor = 0;
	struct utsname u;

	(void)c;
	uname(&u);
	if (sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
	    (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR))) {
		finding_set(f, LEVEL_OK, "Linux %s", u.release);
		return;
	}
	finding_set(f, LEVEL_WARNING, "Linux %s", u.release);
	finding_follows(
		f, "Carrel is tried on Linux %d.%d and newer: what goes wrong here may be the kernel's age.",
		KERNEL_MAJOR, KERNEL_MINOR);
}

static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += len)
		if ((at == text || strchr(" ,\n", at[-1])) && (!at[len] || strchr(" ,\n", at[len])))
			return true;
	return false;
}

/* The controllers of mounts of one type in /proc/self/mountinfo, by their super options, into ret; how many
 * mounts. */
static unsigned cgroup_mounts(const char *type, char *ret, size_t size)
{
	char *text = text_file("/proc/self/mountinfo"), *save = NULL, pattern[32];
	unsigned count = 0;

	ret[0] = '\0';
	snprintf(pattern, sizeof(pattern), " - %s ", type);
	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		const char *at = strstr(line, pattern), *options = at ? strrchr(at, ' ') : NULL;

		if (!at)
			continue;
		count++;
		snprintf(ret + strlen(ret), size - strlen(ret), "%s,", options + 1);
	}
	free(text);
	return count;
}

/* The root of version 2: its file names them, and the freezer is always there. */
static void unified_controllers(char *ret, size_t size)
{
	char *text = text_file("/sys/fs/cgroup/cgroup.controllers");

	snprintf(ret, size, "%s", text ? text : "");
	ret[strcspn(ret, "\n")] = '\0';
	if (text)
		snprintf(ret + strlen(ret), size - strlen(ret), " freezer");
	free(text);
}

void look_cgroups(struct command *c, struct finding *f)
{
	static const char *const needed[] = { "memory", "cpu", "pids", "freezer" };
	char controllers[1024], lacking[64] = "";
	unsigned v1 = cgroup_mounts("cgroup", controllers, sizeof(controllers));
	bool unified = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;

	(void)c;
	if (unified)
		unified_controllers(controllers, sizeof(controllers));
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!has_word(controllers, needed[i]))
			snprintf(lacking + strlen(lacking), sizeof(lacking) - strlen(lacking), " %s",
				 needed[i]);
	if (!unified && v1 == 0) {
		finding_set(f, LEVEL_MISSING, "no control groups are mounted");
		finding_follows(
			f, "No sandbox could be limited, so none starts: mount cgroup2 on /sys/fs/cgroup.");
	} else if (lacking[0]) {
		finding_set(f, LEVEL_MISSING, "version %d, without%s", unified ? 2 : 1, lacking);
		finding_follows(
			f, "No sandbox could be limited by it, so none starts: the kernel or the container "
			   "around this one has to offer it.");
	} else {
		finding_set(f, LEVEL_OK, "version %d with memory, cpu, pids, freezer", unified ? 2 : 1);
	}
}

/* Tried, not guessed: sysctls of several names forbid it. 0 or an errno. */
static int user_namespace_try(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0 ? errno : 0);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

/* The settings that let sandboxes into the jail, and what the jail's absence means with them. */
static const struct jail_use {
	const char *name, *value, *who;
	enum level without;
} jail_uses[] = {
	{ "ENGINE", "jail", "Every sandbox runs", LEVEL_MISSING },
	{ "ALLOW_JAIL", "yes", "A sandbox that names the engine jail runs", LEVEL_WARNING },
};

/* NULL: none of them is set. */
static const struct jail_use *jail_use(void)
{
	for (size_t i = 0; i < sizeof(jail_uses) / sizeof(jail_uses[0]); i++)
		if (strcmp(setting(jail_uses[i].name, ""), jail_uses[i].value) == 0)
			return &jail_uses[i];
	return NULL;
}

void look_namespaces(struct command *c, struct finding *f)
{
	const struct jail_use *use = jail_use();
	int err = user_namespace_try();

	(void)c;
	if (err == 0) {
		finding_set(f, LEVEL_OK, "user namespaces can be made%s", geteuid() == 0 ? " (as root)" : "");
		if (use)
			finding_follows(f, "%s=%s: %s on this host's own kernel, for trusted code only.", use->name,
					use->value, use->who);
		return;
	}
	finding_set(f, use ? use->without : LEVEL_WARNING, "user namespaces cannot be made: %s", strerror(err));
	finding_follows(
		f,
		"The engines kvm and tcg do without them; the engine jail%s cannot run here. See the sysctls "
		"user.max_user_namespaces and kernel.unprivileged_userns_clone.",
		use ? ", which the settings let in," : "");
}

static long sysctl_number(const char *path, long otherwise)
{
	char *text = text_file(path);
	long number = text ? strtol(text, NULL, 10) : otherwise;

	free(text);
	return number;
}

void look_io_uring(struct command *c, struct finding *f)
{
	struct io_uring_params params = { 0 };
	long fd = syscall(SYS_io_uring_setup, 1, &params), disabled;
	int err = errno;

	(void)c;
	if (fd >= 0) {
		close((int)fd);
		finding_set(f, LEVEL_OK, "works");
		return;
	}
	disabled = sysctl_number("/proc/sys/kernel/io_uring_disabled", 0);
	finding_set(f, LEVEL_WARNING, "%s",
		    err == ENOSYS  ? "this kernel has none"
		    : disabled > 0 ? "forbidden by the sysctl kernel.io_uring_disabled"
		    : err == EPERM ? "forbidden by a seccomp filter around this"
				   : strerror(err));
	finding_follows(
		f,
		"Nothing is lost: where it is missing, disks and sockets are served by threads and epoll.");
}
