#include "reason.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* "oom_kill N" on a line of its own; not "oom_kill_disable N". */
static int has_oom_kill(const char *text)
{
	const char *p = text;

	while ((p = strstr(p, "oom_kill ")) != NULL) {
		if (p == text || p[-1] == '\n')
			return strtoull(p + strlen("oom_kill "), NULL, 10) > 0;
		p++;
	}
	return 0;
}

void reason_of_exit(int wait_status, const char *memory_events, char *ret, size_t size)
{
	const char *name;

	if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL && has_oom_kill(memory_events)) {
		snprintf(ret, size, "out-of-memory");
	} else if (WIFSIGNALED(wait_status)) {
		name = sigabbrev_np(WTERMSIG(wait_status));
		snprintf(ret, size, "crashed(SIG%s)", name ? name : "?");
	} else {
		snprintf(ret, size, "crashed(%d)", WEXITSTATUS(wait_status));
	}
}

const char *reason_sentence(int wait_status)
{
	if (!WIFSIGNALED(wait_status) || WTERMSIG(wait_status) != SIGSYS)
		return NULL;
	return "It asked the kernel for something that its filter forbids, and was killed for it: its guest may have "
	       "taken it over.";
}
