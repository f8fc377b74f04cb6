/* What the files of a process share: process.c (start, frames, end),
 * process_out.c (its events to the worker's pipe). */
#ifndef CARREL_PROCESS_INNER_H
#define CARREL_PROCESS_INNER_H

#include "events.h"
#include "link/channel.h"
#include "process.h"
#include "utf8_split.h"

struct process {
	struct sandbox *sandbox;
	struct store *store;
	struct hub *hub;
	struct process *next;
	char id[STORE_ID_MAX];
	struct channel *channel;
	struct bytepipe *pipe;         /* NULL once closed */
	struct process_waiter *waiter; /* until it runs */
	struct events events;
	size_t lines_at;           /* of events.lines, handed to the pipe */
	struct utf8_split text[2]; /* unfinished characters: stdout, stderr */
	char *input;
	size_t input_len, input_at;
	bool input_closed, exists, ended, paused, timed_out, killing, leaving;
	bool asked;     /* the agent owes an answer, which comes here */
	bool exited;    /* the agent has forgotten it, or will */
	bool abandoned; /* nobody reads it any more: it is to be killed */
	unsigned timeout_s;
	int64_t began_ms;
	struct hub_timer *timer, *linger;
	struct hub_item item, release;
};

/* Out of its sandbox; the memory goes once what was posted has run. */
void process_leave(struct process *p);
/* Nobody reads it any more: its group is killed, and the agent forgets it, now or when the link is back. */
void process_abandon(struct process *p);

/* process_out.c */
/* stream: 0 stdout, 1 stderr. */
void process_output(struct process *p, unsigned stream, const char *bytes, size_t len);
/* The end event, once. exit: the agent's 'X' frame or NULL; reason overrides its. */
void process_end(struct process *p, json_t *exit, const char *reason);
/* Moves what is written to the pipe; sees whether the worker is gone (p leaves then). */
void process_push(struct process *p);
/* The pipe's callback, on the worker's thread. */
void process_pipe_changed(void *arg);

#endif
