/* UNIT: vmm/machine vmm/virtio vmm/snapshot LIBS: -luring -lseccomp */
/* The monitor's system call filters, entered for good by children of this process: each
 * row lets its call through, and every other call kills. */
#include <errno.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "vmm/machine/filter.h"
#include "vmm/machine/filter_rules.h"
#include "vmm/virtio/blk_ring.h"

enum {
	CALLS_MAX = 460, /* all there are, and some that are not yet */
	ARGS = 6,
	X32 = 0x40000000,
	INT80 = -2, /* getpid() by the interrupt of 32-bit programs */
	ALARM_S = 20,
	/* uprobe() and uretprobe(), which newer kernels ask no filter about: they come from a probe, and
	 * who makes them otherwise is killed for that. */
	PROBE_FIRST = 335,
	PROBE_LAST = 336,
};

struct attempt {
	enum filter filter;
	long call;
	long args[ARGS]; /* -1: no call does anything by it */
};

static void try(const struct attempt *a)
{
	const long *p = a->args;

	if (a->filter != FILTER_START && filter_enter(FILTER_START) != 0)
		_exit(2);
	if (filter_enter(a->filter) != 0)
		_exit(2);
	if (a->call == INT80)
		__asm__ volatile("int $0x80" ::"a"(20) : "memory");
	else
		syscall(a->call, p[0], p[1], p[2], p[3], p[4], p[5]);
	syscall(a->filter == FILTER_VCPU ? SYS_exit : SYS_exit_group, 0);
}

/* How a child ends that does as it is told. */
static int child_status(void (*body)(const struct attempt *a), const struct attempt *a)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		alarm(ALARM_S);
		body(a);
		_exit(3);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 2);
	CHECK(!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM);
	return status;
}

static bool is_killed(struct attempt a)
{
	int status = child_status(try, &a);

	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

static struct attempt attempt(enum filter which, long call)
{
	return (struct attempt){ which, call, { -1, -1, -1, -1, -1, -1 } };
}

static bool row_is_of(const struct filter_rule *r, enum filter which)
{
	return which == FILTER_START || r->in & 1u << which;
}

/* As the tables read. */
static bool is_allowed(const struct attempt *a)
{
	for (unsigned i = 0; i < filter_rules_count; i++) {
		const struct filter_rule *r = &filter_rules[i];

		if (row_is_of(r, a->filter) && r->call == a->call &&
		    ((uint64_t)a->args[r->arg] & r->mask) == r->value)
			return true;
	}
	return false;
}

static bool has_row(enum filter which, long call)
{
	for (unsigned i = 0; i < filter_rules_count; i++)
		if (row_is_of(&filter_rules[i], which) && filter_rules[i].call == call)
			return true;
	return false;
}

static void calls_without_a_row_kill(enum filter which)
{
	for (long call = 0; call < CALLS_MAX; call++)
		if (!has_row(which, call) && (call < PROBE_FIRST || call > PROBE_LAST) &&
		    !is_killed(attempt(which, call))) {
			fprintf(stderr, "filter %d lets call %ld through\n", which, call);
			exit(1);
		}
}

static void rows_let_their_call_through(enum filter which)
{
	for (unsigned i = 0; i < filter_rules_count; i++) {
		const struct filter_rule *r = &filter_rules[i];
		struct attempt a = attempt(which, r->call);

		if (!row_is_of(r, which))
			continue;
		if (r->mask)
			a.args[r->arg] = (long)r->value;
		if (is_killed(a)) {
			fprintf(stderr, "filter %d kills on %s\n", which, r->name);
			exit(1);
		}
	}
}

/* One bit beside what a row asks of its argument: another KVM request, memory to execute, a process. */
static void other_arguments_kill(enum filter which)
{
	unsigned tried = 0;

	for (unsigned i = 0; i < filter_rules_count; i++) {
		const struct filter_rule *r = &filter_rules[i];
		struct attempt a = attempt(which, r->call);

		a.args[r->arg] = (long)(r->value ^ (r->mask & -r->mask));
		if (!r->mask || !row_is_of(r, which) || is_allowed(&a))
			continue;
		tried++;
		if (!is_killed(a)) {
			fprintf(stderr, "filter %d takes %s for its neighbour\n", which, r->name);
			exit(1);
		}
	}
	CHECK(tried > 0);
}

static void other_kinds_of_call_kill(enum filter which)
{
	CHECK(is_killed(attempt(which, X32 | SYS_write)));
	CHECK(is_killed(attempt(which, INT80)));
}

static bool kills_on(enum filter which, long call, unsigned arg, long value)
{
	struct attempt a = attempt(which, call);

	a.args[arg] = value;
	return is_killed(a);
}

/* By name, whatever the tables say. */
static void what_matters_most_kills(enum filter which)
{
	static const long calls[] = { SYS_open,   SYS_openat,      SYS_openat2, SYS_socket, SYS_connect,
				      SYS_execve, SYS_execveat,    SYS_fork,    SYS_vfork,  SYS_ptrace,
				      SYS_kill,   SYS_unlinkat,    SYS_mount,   SYS_bpf,    SYS_setuid,
				      SYS_prctl,  SYS_memfd_create };

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		CHECK(kills_on(which, calls[i], 0, -1));
	CHECK(kills_on(which, SYS_clone, 0, SIGCHLD));
	CHECK(kills_on(which, SYS_mmap, 2, PROT_READ | PROT_WRITE | PROT_EXEC));
	CHECK(kills_on(which, SYS_mprotect, 2, PROT_READ | PROT_EXEC));
	CHECK(kills_on(which, SYS_ioctl, 1, KVM_CREATE_VM));
	CHECK(kills_on(which, SYS_ioctl, 1, TIOCSTI));
	CHECK(kills_on(which, SYS_tgkill, 2, SIGKILL));
}

static void threads_have_no_rights_of_each_other(void)
{
	CHECK(!kills_on(FILTER_VCPU, SYS_ioctl, 1, KVM_RUN));
	CHECK(kills_on(FILTER_MAIN, SYS_ioctl, 1, KVM_RUN));
	CHECK(!kills_on(FILTER_START, SYS_ioctl, 1, KVM_CREATE_VCPU));
	CHECK(kills_on(FILTER_MAIN, SYS_ioctl, 1, KVM_CREATE_VCPU));
	CHECK(kills_on(FILTER_MAIN, SYS_ioctl, 1, KVM_SET_USER_MEMORY_REGION));
	CHECK(kills_on(FILTER_MAIN, SYS_seccomp, 0, 1));
	CHECK(kills_on(FILTER_VCPU, SYS_ioctl, 1, KVM_GET_REGS));
	CHECK(kills_on(FILTER_VCPU, SYS_mmap, 2, PROT_READ));
	CHECK(kills_on(FILTER_VCPU, SYS_recvmsg, 0, -1));
	CHECK(kills_on(FILTER_VCPU, SYS_pwrite64, 0, -1));
}

static void *try_in_thread(void *arg)
{
	try(arg);
	return NULL;
}

static void try_beside(const struct attempt *a)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, try_in_thread, (void *)a) == 0)
		pthread_join(thread, NULL);
}

/* What a filter allows is its thread's, and what it forbids ends the process. */
static void a_thread_takes_the_others_along(void)
{
	struct attempt a = attempt(FILTER_VCPU, SYS_getpid);
	int status = child_status(try_beside, &a);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	a.call = SYS_write;
	status = child_status(try_beside, &a);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

/* A driver resets its disk with a request in flight: the vCPU's thread waits for that. */
static void wait_as_vcpu(const struct attempt *a)
{
	int fd = memfd_create("disk", MFD_CLOEXEC);
	struct blk_ring ring = { 0 };
	char byte;

	(void)a;
	if (ftruncate(fd, 1) != 0 || blk_ring_make(&ring, fd) != 0)
		_exit(2);
	blk_ring_read(&ring, &(struct iovec){ &byte, 1 }, 1, 0, NULL);
	if (blk_ring_submit(&ring) != 0 || filter_enter(FILTER_START) != 0 || filter_enter(FILTER_VCPU) != 0)
		_exit(2);
	syscall(SYS_exit, blk_ring_wait(&ring) == 0 ? 0 : 2);
}

static void vcpu_may_wait_for_a_disk(void)
{
	int status = child_status(wait_as_vcpu, NULL);

	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void none_is_there_before_it_is_built(void)
{
	CHECK_INT(filter_enter(FILTER_START), -EINVAL);
}

int main(void)
{
	none_is_there_before_it_is_built();
	CHECK_INT(filters_build(), 0);
	/* A sanitizer's handler would make calls of its own. */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	for (int i = 0; i < FILTERS; i++) {
		enum filter which = (enum filter)i;

		rows_let_their_call_through(which);
		other_arguments_kill(which);
		other_kinds_of_call_kill(which);
		what_matters_most_kills(which);
		calls_without_a_row_kill(which);
	}
	threads_have_no_rights_of_each_other();
	a_thread_takes_the_others_along();
	vcpu_may_wait_for_a_disk();
	return 0;
}
