#include "jail_filter.h"

#include <errno.h>
#include <seccomp.h>
#include <stddef.h>

static const int keeper_calls[] = {
	/* pipes, log files, the reason */
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(pread64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(ftruncate),
	SCMP_SYS(lseek),
	SCMP_SYS(close),
	SCMP_SYS(fcntl),
	/* keeper.sock */
	SCMP_SYS(accept4),
	SCMP_SYS(recvfrom),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(sendmsg),
	/* the loop, its timer, its child */
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(wait4),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(rt_sigreturn),
	/* the end, orderly or by abort() */
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(tgkill),
};

int jail_filter_keeper(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err = 0;

	if (!filter)
		return -ENOMEM;
	for (size_t i = 0; !err && i < sizeof(keeper_calls) / sizeof(*keeper_calls); i++)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, keeper_calls[i], 0);
	if (!err)
		err = seccomp_load(filter);
	seccomp_release(filter);
	return err;
}
