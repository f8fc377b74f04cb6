#include "crash.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "signal_name.h"
#include "util.h"

enum {
	FRAMES_MAX = 12, /* enough to name the way to a fault in a library */
	LINE_MAX_BYTES = 160, /* what a message of carreld quotes */
};

/* "file+0x12" into the line, or nothing where it does not fit whole. */
static size_t add_frame(char *line, size_t used, void *address)
{
	Dl_info info;
	const char *name = "?", *slash;
	uintptr_t base = 0;
	size_t n;

	if (dladdr(address, &info) && info.dli_fname) {
		slash = strrchr(info.dli_fname, '/');
		name = slash ? slash + 1 : info.dli_fname;
		base = (uintptr_t)info.dli_fbase;
	}
	n = (size_t)snprintf(line + used, LINE_MAX_BYTES - used, " %s+0x%zx", name, (uintptr_t)address - base);
	return n < LINE_MAX_BYTES - used ? used + n : used;
}

/* Where it happened: before that are the handler and what called it. */
static int first_frame(void *const *frames, int n, const ucontext_t *context)
{
	int i = 0;

	while (i < n && (uintptr_t)frames[i] != (uintptr_t)context->uc_mcontext.gregs[REG_RIP])
		i++;
	return i < n ? i : 0;
}

/* What is called here may take locks: a second fault ends the process by the default action. A signal that
 * somebody sent is none of its own faults, and process 1 lives on as it would without this. */
static void on_fault(int signum, siginfo_t *info, void *context)
{
	void *frames[FRAMES_MAX];
	char line[LINE_MAX_BYTES + 1], name[SIGNAL_NAME_MAX];
	size_t used;
	int n;

	if (info->si_code <= 0 && info->si_pid != getpid())
		return;
	signal(signum, SIG_DFL);
	n = backtrace(frames, FRAMES_MAX);
	used = (size_t)snprintf(line, LINE_MAX_BYTES, "carrel-agent: died of %s at", signal_name(signum, name));
	for (int i = first_frame(frames, n, context); i < n; i++)
		used = add_frame(line, used, frames[i]);
	line[used] = '\n';
	if (write(STDERR_FILENO, line, used + 1) < 0)
		_exit(1);
	raise(signum);
}

int crash_watch(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	void *frame;
	size_t i;

	backtrace(&frame, 1); /* loads what it needs now, not in the handler */
	for (i = 0; i < ARRAY_SIZE(faults); i++)
		if (sigaction(faults[i], &action, NULL) < 0)
			return -errno;
	return 0;
}
