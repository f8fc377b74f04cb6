/* "SIGKILL" for 9, "SIG99" for what has no name. */
#ifndef CARREL_AGENT_SIGNAL_NAME_H
#define CARREL_AGENT_SIGNAL_NAME_H

#include <stdio.h>
#include <string.h>

enum { SIGNAL_NAME_MAX = 24 };

static inline const char *signal_name(int signum, char *buf)
{
	const char *name = sigabbrev_np(signum);

	if (name)
		snprintf(buf, SIGNAL_NAME_MAX, "SIG%s", name);
	else
		snprintf(buf, SIGNAL_NAME_MAX, "SIG%d", signum);
	return buf;
}

#endif
