/* Whether this host's kernel has what the engine jail is made of, as far as a process
 * without rights can see it; carrel-spawn says the rest when it starts one. */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "probe.h"

enum { KERNEL_MAJOR = 5, KERNEL_MINOR = 19 }; /* overlay over idmapped mounts */

static int why(char *ret_why, unsigned size, const char *text)
{
	snprintf(ret_why, size, "%s", text);
	return -ENODEV;
}

static int kernel_old(char *ret_why, unsigned size)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	if (uname(&u) != 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return why(ret_why, size, "The version of this host's kernel cannot be read.");
	if (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR))
		return 0;
	snprintf(ret_why, size, "This host's kernel is %u.%u; maps of users over mounts need %d.%d or newer.", major, minor,
		 KERNEL_MAJOR, KERNEL_MINOR);
	return -ENODEV;
}

static int users_forbidden(char *ret_why, unsigned size)
{
	FILE *f = fopen("/proc/sys/user/max_user_namespaces", "re");
	unsigned long max = 0;

	if (access("/proc/self/ns/user", F_OK) != 0)
		return why(ret_why, size, "This host's kernel has no user namespaces.");
	if (f && fscanf(f, "%lu", &max) != 1)
		max = 0;
	if (f)
		fclose(f);
	return max > 0 ? 0 : why(ret_why, size, "User namespaces are switched off: sysctl user.max_user_namespaces is 0.");
}

int probe_jail(char *ret_why, unsigned size)
{
	const unsigned action = SECCOMP_RET_ERRNO;
	int err = kernel_old(ret_why, size);

	if (!err)
		err = users_forbidden(ret_why, size);
	if (!err && access("/dev/loop-control", F_OK) != 0)
		err = why(ret_why, size, "This host has no loop devices (/dev/loop-control): load the module loop.");
	if (!err && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0)
		err = why(ret_why, size, "This host's kernel has no system call filters (seccomp).");
	return err;
}
