#include "reaper.h"

#include <sys/prctl.h>
#include <sys/wait.h>

static LIST_HEAD(, reaper_watch) watches = LIST_HEAD_INITIALIZER(watches);
static uv_signal_t child_signal;

static void reap(pid_t pid, int status)
{
	struct reaper_watch *w;

	LIST_FOREACH(w, &watches, entry)
	{
		if (w->pid != pid)
			continue;
		reaper_unwatch(w);
		w->ended(w, status);
		return;
	}
}

static void child_ended(uv_signal_t *handle, int signum)
{
	int status;
	pid_t pid;

	(void)handle, (void)signum;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		reap(pid, status);
}

int reaper_start(uv_loop_t *loop)
{
	int err;

	/* Outside a guest the agent is not process 1, yet kernels whose prepared
	 * parent died must come to it. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	err = uv_signal_init(loop, &child_signal);
	return err ? err : uv_signal_start(&child_signal, child_ended, SIGCHLD);
}

void reaper_watch(struct reaper_watch *w, pid_t pid, void (*ended)(struct reaper_watch *w, int status))
{
	w->pid = pid;
	w->ended = ended;
	LIST_INSERT_HEAD(&watches, w, entry);
}

void reaper_unwatch(struct reaper_watch *w)
{
	if (!w->pid)
		return;
	LIST_REMOVE(w, entry);
	w->pid = 0;
}
