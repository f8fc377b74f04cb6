/* Every system call of carrel-vmm, with the threads that make it. A row that no test
 * reaches, and a call that has no row, fail tests/lab/filter_rules.py. */
#include "filter_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>

#include "filter.h"

#define S (1u << FILTER_START) /* not any more once the machine runs */
#define M (1u << FILTER_MAIN)
#define V (1u << FILTER_VCPU)

#define CALL(call, in) { #call, SCMP_SYS(call), in, 0, 0, 0, 0 }
#define ONLY(call, in, arg, mask, value) { #call " " #value, SCMP_SYS(call), in, arg, mask, value, 0 }
#define KVM(request, in) { #request, SCMP_SYS(ioctl), in, 1, UINT32_MAX, KVM_##request, 0 }

#define INT UINT32_MAX /* of an int argument the kernel reads these bits */
#define FUTEX_FLAGS (FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)
#define THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)
#define NAMESPACES \
	(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP)
#define SIGSETXID 33 /* the library's own, at the first thread */
#define HOLE (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)

const struct filter_rule filter_rules[] = {
	/* A vCPU: most of all calls, and so the first. */
	KVM(RUN, V),
	CALL(rt_sigreturn, V), /* from the signal that takes it out of KVM_RUN */

	/* Events: a kick, an interrupt, the end; the serial port's line to its log. */
	CALL(read, M),
	CALL(write, M | V),
	CALL(epoll_wait, M),
	CALL(epoll_ctl, M),

	/* Locks, and what waits for a thread. */
	ONLY(futex, M | V, 1, INT & ~(FUTEX_FLAGS | FUTEX_WAKE), FUTEX_WAIT),
	ONLY(futex, M | V, 1, INT & ~FUTEX_FLAGS, FUTEX_WAIT_BITSET),
	CALL(getpid, M), /* a signal to a vCPU, the three */
	ONLY(tgkill, M, 2, INT, SIGUSR1),
	CALL(rt_sigprocmask, M | V),

	/* The owner's requests with their files, the port's client. */
	CALL(recvmsg, M),
	CALL(sendto, M),
	CALL(sendmsg, M),
	CALL(readv, M),
	CALL(accept4, M),
	CALL(close, M),
	ONLY(fcntl, S, 1, INT, F_DUPFD_CLOEXEC),
	ONLY(fcntl, S, 1, INT, F_SETFL),

	/* Files that it was given. */
	CALL(pread64, M),
	CALL(pwrite64, M),
	CALL(ftruncate, M),
	ONLY(newfstatat, M, 3, INT, AT_EMPTY_PATH), /* fstat() */
	ONLY(fallocate, M, 1, INT, HOLE),               /* a discard */

	/* Disks. A vCPU that resets one waits for what is in flight, and starts nothing. */
	CALL(io_uring_setup, S),
	CALL(io_uring_register, S),
	CALL(io_uring_enter, M),
	ONLY(io_uring_enter, V, 1, INT, 0),

	/* Memory, the guest's and its own: nothing that can be executed. */
	ONLY(mmap, M, 2, PROT_EXEC, 0),
	CALL(munmap, M),
	CALL(brk, M),
	ONLY(madvise, M, 2, INT, MADV_DONTDUMP),
	CALL(getrandom, M),
	CALL(eventfd2, S),

	/* A vCPU's thread begins, enters its own filter, and ends. Where clone3() is not there the
	 * library uses clone(), whose flags can be seen. */
	{ "clone3", SCMP_SYS(clone3), S, 0, 0, 0, ENOSYS },
	ONLY(clone, S, 0, THREAD | NAMESPACES, THREAD),
	ONLY(mprotect, S, 2, PROT_EXEC, 0),
	CALL(set_robust_list, S),
	ONLY(rt_sigaction, S, 0, INT, SIGSETXID),
	CALL(rseq, S),
	ONLY(seccomp, S, 0, INT, SECCOMP_SET_MODE_FILTER),
	ONLY(madvise, V, 2, INT, MADV_DONTNEED),
	CALL(exit, V),
	CALL(exit_group, M),

	/* The machine is put together, … */
	KVM(SET_USER_MEMORY_REGION, S),
	KVM(IRQFD, S),
	KVM(IOEVENTFD, S),
	KVM(CREATE_VCPU, S),
	KVM(SET_CPUID2, S),
	/* …its registers at a boot, … */
	KVM(SET_FPU, S),
	KVM(GET_LAPIC, M),
	KVM(SET_LAPIC, S),
	KVM(SET_REGS, S),
	KVM(GET_SREGS, M),
	KVM(SET_SREGS, S),
	KVM(SET_MSRS, S),
	/* …and the rest of them where they come from a snapshot. */
	KVM(GET_TSC_KHZ, M),
	KVM(SET_TSC_KHZ, S),
	KVM(SET_MP_STATE, S),
	KVM(SET_XSAVE, S),
	KVM(SET_XCRS, S),
	KVM(SET_DEBUGREGS, S),
	KVM(SET_VCPU_EVENTS, S),
	KVM(SET_PIT2, S),
	KVM(SET_CLOCK, S),
	KVM(SET_IRQCHIP, S),

	/* It goes on, and is saved. */
	KVM(KVMCLOCK_CTRL, M),
	KVM(GET_MP_STATE, M),
	KVM(GET_REGS, M),
	KVM(GET_XSAVE, M),
	KVM(GET_XCRS, M),
	KVM(GET_DEBUGREGS, M),
	KVM(GET_CPUID2, M),
	KVM(GET_MSR_INDEX_LIST, M),
	KVM(GET_MSRS, M),
	KVM(GET_VCPU_EVENTS, M),
	KVM(GET_PIT2, M),
	KVM(GET_CLOCK, M),
	KVM(GET_IRQCHIP, M),
	KVM(GET_DIRTY_LOG, M),
};
const unsigned filter_rules_count = sizeof(filter_rules) / sizeof(*filter_rules);
