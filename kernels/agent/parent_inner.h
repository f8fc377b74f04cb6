/* What parent.c (its process) and parent_talk.c (its packets) share. */
#ifndef CARREL_AGENT_PARENT_INNER_H
#define CARREL_AGENT_PARENT_INNER_H

#include <sys/queue.h>
#include <uv.h>

#include "parent.h"
#include "reaper.h"

/* A fork asked for and not yet answered. */
struct fork_job {
	TAILQ_ENTRY(fork_job) entry;
	char *id;
	char *packet;
	int fds[2];
	bool sent;
	uint64_t deadline;
	parent_forked done; /* NULL: forgotten */
	void *arg;
};

struct parent {
	LIST_ENTRY(parent) entry;
	struct agent *agent;
	const struct spec *spec;
	struct reaper_watch watch;
	int fd;
	uv_poll_t *poll;
	uv_timer_t timer;
	bool ready, identity_due, identity_sent;
	uint64_t started;
	TAILQ_HEAD(, fork_job) jobs;
	void (*identity_done)(void *arg, const char *message);
	void *identity_arg;
};

/* The loop has something of its socket, or should send what waits. */
void parent_event(uv_poll_t *poll, int status, int events);
void parent_work(struct parent *p);
/* It died: whoever waits for an answer of it is told. */
void parent_unanswered(struct parent *p);

#endif
