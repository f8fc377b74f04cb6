/* Reaps every child, also those that process 1 inherits, and tells who asked.
 * Not told: children of a prepared parent while that parent lives. */
#ifndef CARREL_AGENT_REAPER_H
#define CARREL_AGENT_REAPER_H

#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

/* Embedded in its owner. ended() is called once, from the loop, with the status
 * of waitpid(); the watch is off the list by then. */
struct reaper_watch {
	LIST_ENTRY(reaper_watch) entry;
	pid_t pid; /* 0: not watching */
	void (*ended)(struct reaper_watch *w, int status);
};

int reaper_start(uv_loop_t *loop);
void reaper_watch(struct reaper_watch *w, pid_t pid, void (*ended)(struct reaper_watch *w, int status));
void reaper_unwatch(struct reaper_watch *w);

#endif
