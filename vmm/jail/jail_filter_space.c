/* What runs in a sandbox of the engine jail may ask the host's kernel for what
 * ordinary programs need: the list is Docker's in essence, without what needs
 * a capability that nobody inside has. Everything else does not exist (ENOSYS, so
 * that libraries fall back), or is refused (EPERM) where a program would take the
 * one for an old kernel and the other for what it is. */
#include "jail_filter.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const int allowed[] = {
	/* files */
	SCMP_SYS(access), SCMP_SYS(chdir), SCMP_SYS(chmod), SCMP_SYS(chown), SCMP_SYS(close), SCMP_SYS(close_range),
	SCMP_SYS(copy_file_range), SCMP_SYS(creat), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3),
	SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(fadvise64), SCMP_SYS(fallocate), SCMP_SYS(fchdir),
	SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(fchown), SCMP_SYS(fchownat), SCMP_SYS(fcntl),
	SCMP_SYS(fdatasync), SCMP_SYS(fgetxattr), SCMP_SYS(flistxattr), SCMP_SYS(flock), SCMP_SYS(fremovexattr),
	SCMP_SYS(fsetxattr), SCMP_SYS(fstat), SCMP_SYS(fstatfs), SCMP_SYS(fsync), SCMP_SYS(ftruncate),
	SCMP_SYS(futimesat), SCMP_SYS(getcwd), SCMP_SYS(getdents), SCMP_SYS(getdents64), SCMP_SYS(getxattr),
	SCMP_SYS(inotify_add_watch), SCMP_SYS(inotify_init), SCMP_SYS(inotify_init1), SCMP_SYS(inotify_rm_watch),
	SCMP_SYS(ioctl), SCMP_SYS(lchown), SCMP_SYS(lgetxattr), SCMP_SYS(link), SCMP_SYS(linkat),
	SCMP_SYS(listxattr), SCMP_SYS(llistxattr), SCMP_SYS(lremovexattr), SCMP_SYS(lseek), SCMP_SYS(lsetxattr),
	SCMP_SYS(lstat), SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(mknod), SCMP_SYS(mknodat),
	SCMP_SYS(newfstatat), SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(pread64),
	SCMP_SYS(preadv), SCMP_SYS(preadv2), SCMP_SYS(pwrite64), SCMP_SYS(pwritev), SCMP_SYS(pwritev2),
	SCMP_SYS(read), SCMP_SYS(readahead), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(readv),
	SCMP_SYS(removexattr), SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(rmdir),
	SCMP_SYS(sendfile), SCMP_SYS(setxattr), SCMP_SYS(splice), SCMP_SYS(stat), SCMP_SYS(statfs),
	SCMP_SYS(statx), SCMP_SYS(symlink), SCMP_SYS(symlinkat), SCMP_SYS(sync_file_range), SCMP_SYS(syncfs),
	SCMP_SYS(tee), SCMP_SYS(truncate), SCMP_SYS(umask), SCMP_SYS(unlink), SCMP_SYS(unlinkat),
	SCMP_SYS(utime), SCMP_SYS(utimensat), SCMP_SYS(utimes), SCMP_SYS(vmsplice), SCMP_SYS(write),
	SCMP_SYS(writev),
	/* waiting */
	SCMP_SYS(epoll_create), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2), SCMP_SYS(epoll_wait), SCMP_SYS(eventfd), SCMP_SYS(eventfd2), SCMP_SYS(pipe),
	SCMP_SYS(pipe2), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(pselect6), SCMP_SYS(select),
	SCMP_SYS(signalfd), SCMP_SYS(signalfd4), SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_gettime),
	SCMP_SYS(timerfd_settime), SCMP_SYS(io_cancel), SCMP_SYS(io_destroy), SCMP_SYS(io_getevents),
	SCMP_SYS(io_pgetevents), SCMP_SYS(io_setup), SCMP_SYS(io_submit),
	/* memory */
	SCMP_SYS(brk), SCMP_SYS(madvise), SCMP_SYS(membarrier), SCMP_SYS(memfd_create), SCMP_SYS(mincore),
	SCMP_SYS(mlock), SCMP_SYS(mlock2), SCMP_SYS(mlockall), SCMP_SYS(mmap), SCMP_SYS(mprotect),
	SCMP_SYS(mremap), SCMP_SYS(msync), SCMP_SYS(munlock), SCMP_SYS(munlockall), SCMP_SYS(munmap),
	SCMP_SYS(pkey_alloc), SCMP_SYS(pkey_free), SCMP_SYS(pkey_mprotect), SCMP_SYS(remap_file_pages),
	/* processes and threads */
	SCMP_SYS(arch_prctl), SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(exit), SCMP_SYS(exit_group),
	SCMP_SYS(fork), SCMP_SYS(futex), SCMP_SYS(futex_waitv), SCMP_SYS(get_robust_list),
	SCMP_SYS(get_thread_area), SCMP_SYS(getcpu), SCMP_SYS(getpgid), SCMP_SYS(getpgrp), SCMP_SYS(getpid),
	SCMP_SYS(getppid), SCMP_SYS(getpriority), SCMP_SYS(getrlimit), SCMP_SYS(getrusage), SCMP_SYS(getsid),
	SCMP_SYS(gettid), SCMP_SYS(ioprio_get), SCMP_SYS(ioprio_set), SCMP_SYS(kill), SCMP_SYS(pause),
	SCMP_SYS(pidfd_open), SCMP_SYS(pidfd_send_signal), SCMP_SYS(prctl), SCMP_SYS(prlimit64),
	SCMP_SYS(restart_syscall), SCMP_SYS(rseq), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigpending),
	SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigsuspend),
	SCMP_SYS(rt_sigtimedwait), SCMP_SYS(rt_tgsigqueueinfo), SCMP_SYS(sched_get_priority_max),
	SCMP_SYS(sched_get_priority_min), SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_getattr),
	SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_rr_get_interval),
	SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_setattr), SCMP_SYS(sched_setparam),
	SCMP_SYS(sched_setscheduler), SCMP_SYS(sched_yield), SCMP_SYS(seccomp), SCMP_SYS(set_robust_list),
	SCMP_SYS(set_thread_area), SCMP_SYS(set_tid_address), SCMP_SYS(setpgid), SCMP_SYS(setpriority),
	SCMP_SYS(setrlimit), SCMP_SYS(setsid), SCMP_SYS(sigaltstack), SCMP_SYS(sysinfo), SCMP_SYS(tgkill),
	SCMP_SYS(time), SCMP_SYS(times), SCMP_SYS(tkill), SCMP_SYS(uname), SCMP_SYS(vfork), SCMP_SYS(wait4),
	SCMP_SYS(waitid),
	/* users */
	SCMP_SYS(capget), SCMP_SYS(capset), SCMP_SYS(getegid), SCMP_SYS(geteuid), SCMP_SYS(getgid),
	SCMP_SYS(getgroups), SCMP_SYS(getresgid), SCMP_SYS(getresuid), SCMP_SYS(getuid), SCMP_SYS(setfsgid),
	SCMP_SYS(setfsuid), SCMP_SYS(setgid), SCMP_SYS(setgroups), SCMP_SYS(setregid), SCMP_SYS(setresgid),
	SCMP_SYS(setresuid), SCMP_SYS(setreuid), SCMP_SYS(setuid),
	/* time */
	SCMP_SYS(alarm), SCMP_SYS(clock_getres), SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep),
	SCMP_SYS(getitimer), SCMP_SYS(gettimeofday), SCMP_SYS(nanosleep), SCMP_SYS(setitimer),
	SCMP_SYS(timer_create), SCMP_SYS(timer_delete), SCMP_SYS(timer_getoverrun), SCMP_SYS(timer_gettime),
	SCMP_SYS(timer_settime),
	/* sockets: which, see below */
	SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(bind), SCMP_SYS(connect), SCMP_SYS(getpeername),
	SCMP_SYS(getsockname), SCMP_SYS(getsockopt), SCMP_SYS(listen), SCMP_SYS(recvfrom), SCMP_SYS(recvmmsg),
	SCMP_SYS(recvmsg), SCMP_SYS(sendmmsg), SCMP_SYS(sendmsg), SCMP_SYS(sendto), SCMP_SYS(setsockopt),
	SCMP_SYS(shutdown),
	/* between processes */
	SCMP_SYS(mq_getsetattr), SCMP_SYS(mq_notify), SCMP_SYS(mq_open), SCMP_SYS(mq_timedreceive),
	SCMP_SYS(mq_timedsend), SCMP_SYS(mq_unlink), SCMP_SYS(msgctl), SCMP_SYS(msgget), SCMP_SYS(msgrcv),
	SCMP_SYS(msgsnd), SCMP_SYS(semctl), SCMP_SYS(semget), SCMP_SYS(semop), SCMP_SYS(semtimedop),
	SCMP_SYS(shmat), SCMP_SYS(shmctl), SCMP_SYS(shmdt), SCMP_SYS(shmget),
	SCMP_SYS(getrandom),
};

/* Known, and refused. */
static const int refused[] = {
	SCMP_SYS(acct), SCMP_SYS(add_key), SCMP_SYS(adjtimex), SCMP_SYS(bpf), SCMP_SYS(chroot),
	SCMP_SYS(clock_adjtime), SCMP_SYS(clock_settime), SCMP_SYS(delete_module), SCMP_SYS(fanotify_init),
	SCMP_SYS(finit_module), SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(fsopen), SCMP_SYS(fspick),
	SCMP_SYS(init_module), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register), SCMP_SYS(io_uring_setup),
	SCMP_SYS(ioperm), SCMP_SYS(iopl), SCMP_SYS(kcmp), SCMP_SYS(kexec_file_load), SCMP_SYS(kexec_load),
	SCMP_SYS(keyctl), SCMP_SYS(lookup_dcookie), SCMP_SYS(mbind), SCMP_SYS(migrate_pages), SCMP_SYS(mount),
	SCMP_SYS(mount_setattr), SCMP_SYS(move_mount), SCMP_SYS(move_pages), SCMP_SYS(name_to_handle_at),
	SCMP_SYS(open_by_handle_at), SCMP_SYS(open_tree), SCMP_SYS(perf_event_open), SCMP_SYS(pidfd_getfd),
	SCMP_SYS(pivot_root), SCMP_SYS(process_madvise), SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev), SCMP_SYS(ptrace), SCMP_SYS(quotactl), SCMP_SYS(reboot),
	SCMP_SYS(request_key), SCMP_SYS(set_mempolicy), SCMP_SYS(setdomainname), SCMP_SYS(sethostname),
	SCMP_SYS(setns), SCMP_SYS(settimeofday), SCMP_SYS(swapoff), SCMP_SYS(swapon), SCMP_SYS(syslog),
	SCMP_SYS(umount2), SCMP_SYS(unshare), SCMP_SYS(userfaultfd), SCMP_SYS(vhangup),
};

/* The address families that programs need: no packets, no other machine's kernel, no crypto engine. */
static const int families[] = { AF_UNIX, AF_INET, AF_INET6 };

/* What glibc and runtimes ask for: the usual, and without address randomisation. */
static const uint32_t personalities[] = { 0x0, 0x8, 0x20000, 0x20008, 0xffffffff };

#define NAMESPACES \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

static int add_each(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t n)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = seccomp_rule_add(filter, action, calls[i], 0);
	return err;
}

static int add_sockets(scmp_filter_ctx filter)
{
	int err = 0;

	for (size_t i = 0; !err && i < COUNT(families); i++) {
		const struct scmp_arg_cmp family = SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)families[i]);

		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, family);
		if (!err)
			err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1, family);
	}
	/* Programs list their own addresses by it. */
	if (!err)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
				       SCMP_A0_32(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2_32(SCMP_CMP_EQ, NETLINK_ROUTE));
	return err;
}

/* clone3() hides its flags from a filter: libraries go on with clone(). */
static int add_processes(scmp_filter_ctx filter)
{
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				   SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0));

	for (size_t i = 0; !err && i < COUNT(personalities); i++)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
				       SCMP_A0_32(SCMP_CMP_EQ, personalities[i]));
	/* It would write the whole host's disks, for a disk that is nobody's tomorrow. */
	return err ? err : seccomp_rule_add(filter, SCMP_ACT_ERRNO(0), SCMP_SYS(sync), 0);
}

int jail_filter_space(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int err;

	if (!filter)
		return -ENOMEM;
	/* A tree instead of a list of three hundred comparisons for each call. */
	err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!err)
		err = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
	if (!err)
		err = add_each(filter, SCMP_ACT_ALLOW, allowed, COUNT(allowed));
	if (!err)
		err = add_each(filter, SCMP_ACT_ERRNO(EPERM), refused, COUNT(refused));
	if (!err)
		err = add_sockets(filter);
	if (!err)
		err = add_processes(filter);
	if (!err)
		err = seccomp_load(filter);
	seccomp_release(filter);
	return err;
}
