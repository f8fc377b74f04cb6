/* calls OUT PROGRAM ARGUMENT…: runs carrel-vmm and holds every system call of its threads
 * against vmm/machine/filter_rules.c. OUT gets a line at the first time of each:
 *
 *   row NUMBER FILTER    a row was used by a thread that had entered that filter last
 *   none FILTER CALL …   a call that no row of the thread's filter allows
 *
 * Without a program OUT gets the rows: NUMBER, the filters as bits, NAME.
 *
 * Filters are seen and not entered, so that all that is missing shows and not the first.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm/machine/filter.h"
#include "vmm/machine/filter_rules.h"

enum { THREADS_MAX = 32, ROWS_MAX = 256, CALLS_MAX = 512, OUTSIDE = -1, MADE = 1 };

struct thread {
	pid_t id; /* 0: free */
	int filter;
	int entering; /* the filter, while seccomp() is on its way; else OUTSIDE */
	int faked;    /* what a call returns that is not made; or MADE */
};

static struct thread threads[THREADS_MAX];
static bool used[ROWS_MAX][FILTERS], told[CALLS_MAX][FILTERS];
static FILE *out;

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "calls: %s: %s\n", what, strerror(errno));
	exit(99);
}

/* Threads begin with what the first one has entered: they are made by it. */
static struct thread *thread_of(pid_t id)
{
	struct thread *free_one = NULL;

	for (int i = 0; i < THREADS_MAX; i++) {
		if (threads[i].id == id)
			return &threads[i];
		if (!threads[i].id && !free_one)
			free_one = &threads[i];
	}
	if (!free_one)
		die("too many threads");
	*free_one =
		(struct thread){ .id = id, .filter = threads[0].filter, .entering = OUTSIDE, .faked = MADE };
	if (free_one == &threads[0])
		free_one->filter = OUTSIDE;
	return free_one;
}

static bool row_allows(const struct filter_rule *r, const struct __ptrace_syscall_info *call)
{
	return r->call == (int)call->entry.nr && (call->entry.args[r->arg] & r->mask) == r->value;
}

/* -> what it fails with, or MADE */
static int check(int filter, const struct __ptrace_syscall_info *call)
{
	const uint64_t *a = (const uint64_t *)call->entry.args;
	bool allowed = false;
	int result = MADE;

	for (unsigned i = 0; i < filter_rules_count; i++) {
		const struct filter_rule *r = &filter_rules[i];

		if (!row_allows(r, call) || (filter != FILTER_START && !(r->in & 1u << filter)))
			continue;
		allowed = true;
		result = r->error ? -r->error : MADE;
		if (!used[i][filter])
			fprintf(out, "row %u %d\n", i, filter);
		used[i][filter] = true;
	}
	if (allowed || told[call->entry.nr % CALLS_MAX][filter])
		return result;
	told[call->entry.nr % CALLS_MAX][filter] = true;
	fprintf(out, "none %d %llu(%#lx, %#lx, %#lx, %#lx)\n", filter, (unsigned long long)call->entry.nr,
		(long)a[0], (long)a[1], (long)a[2], (long)a[3]);
	return result;
}

static void copy(pid_t id, uint64_t from, void *to, size_t size)
{
	struct iovec here = { to, size }, there = { (void *)(uintptr_t)from, size };

	if (process_vm_readv(id, &here, 1, &there, 1, 0) != (ssize_t)size)
		die("cannot read its memory");
}

/* Which of ours is the program that it gives to seccomp()? */
static int filter_given(pid_t id, uint64_t at)
{
	struct sock_fprog given;
	struct sock_filter code[BPF_MAXINSNS];

	copy(id, at, &given, sizeof(given));
	copy(id, (uint64_t)(uintptr_t)given.filter, code, given.len * sizeof(*code));
	for (int i = 0; i < FILTERS; i++) {
		const struct sock_fprog *p = filter_program((enum filter)i);

		if (p->len == given.len && memcmp(p->filter, code, p->len * sizeof(*code)) == 0)
			return i;
	}
	errno = EPROTO;
	die("a filter that is none of ours");
}

/* A call is skipped at its entry, and tells at its exit what came of it. */
static void fake(pid_t id, bool entry, int result)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, id, NULL, &regs) != 0)
		die("registers");
	if (entry)
		regs.orig_rax = (unsigned long long)-1;
	else
		regs.rax = (unsigned long long)(long long)result;
	if (ptrace(PTRACE_SETREGS, id, NULL, &regs) != 0)
		die("registers");
}

static void entered(struct thread *t, const struct __ptrace_syscall_info *call)
{
	const uint64_t *a = (const uint64_t *)call->entry.args;

	if (t->filter != OUTSIDE)
		t->faked = check(t->filter, call);
	/* Without a program the library only asks what the kernel knows. */
	if (call->entry.nr == SYS_seccomp && a[0] == SECCOMP_SET_MODE_FILTER && a[2]) {
		t->entering = filter_given(t->id, a[2]);
		t->faked = 0;
	}
	if (t->faked != MADE)
		fake(t->id, true, 0);
}

static void left(struct thread *t)
{
	if (t->faked == MADE)
		return;
	fake(t->id, false, t->faked);
	t->faked = MADE;
	if (t->entering != OUTSIDE)
		t->filter = t->entering;
	t->entering = OUTSIDE;
}

static void at_call(struct thread *t)
{
	struct __ptrace_syscall_info call;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, t->id, sizeof(call), &call) <= 0)
		die("no word of a system call");
	if (call.op == PTRACE_SYSCALL_INFO_ENTRY)
		entered(t, &call);
	else
		left(t);
	fflush(out);
}

/* A thread stopped: the signal that it goes on with. */
static int stopped(struct thread *t, int status, bool is_new)
{
	int number = WSTOPSIG(status);

	if (number == (SIGTRAP | 0x80))
		at_call(t);
	else if (number != SIGTRAP && !(is_new && number == SIGSTOP))
		return number;
	return 0;
}

static int follow(pid_t first)
{
	int status, result = 99;
	pid_t id;

	while ((id = waitpid(-1, &status, __WALL)) > 0) {
		bool is_new = true;

		for (int i = 0; i < THREADS_MAX; i++)
			is_new = is_new && threads[i].id != id;
		if (WIFSTOPPED(status)) {
			struct thread *t = thread_of(id);

			ptrace(PTRACE_SYSCALL, id, NULL, (long)stopped(t, status, is_new));
			continue;
		}
		if (id == first)
			result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		else
			thread_of(id)->id = 0;
	}
	return result;
}

static int rows_list(void)
{
	for (unsigned i = 0; i < filter_rules_count; i++)
		fprintf(out, "%u %u %s\n", i, filter_rules[i].in, filter_rules[i].name);
	return fclose(out) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	int status;
	pid_t id;

	if (argc < 2)
		return 100;
	out = fopen(argv[1], "ae");
	if (!out)
		die(argv[1]);
	if (argc == 2)
		return rows_list();
	id = fork();
	if (id == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execv(argv[2], argv + 2);
		die(argv[2]);
	}
	if (filters_build() != 0 || waitpid(id, &status, 0) != id)
		die("cannot begin");
	if (ptrace(PTRACE_SETOPTIONS, id, NULL,
		   PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) != 0)
		die("cannot follow it");
	thread_of(id);
	ptrace(PTRACE_SYSCALL, id, NULL, NULL);
	/* Its descriptors are the program's alone: an end of one of them must be seen. */
	syscall(SYS_close_range, 3, (unsigned)fileno(out) - 1, 0);
	syscall(SYS_close_range, (unsigned)fileno(out) + 1, ~0u, 0);
	return follow(id);
}
