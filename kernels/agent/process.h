/* Processes the host starts: one program with stdin, separate stdout and
 * stderr, and its end.
 *
 * process.c         the table, the routes, start
 * process_io.c      its pipes and the frames of its channel, until 'X'
 *
 * An ended process stays until its 'X' frame was acknowledged, or it is deleted.
 * What it left running keeps running; only its pipes are read into nothing.
 */
#ifndef CARREL_AGENT_PROCESS_H
#define CARREL_AGENT_PROCESS_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "limits.h"
#include "reaper.h"
#include "request.h"

struct agent;
struct channel;
struct leaf;
struct process;

enum process_pipe_kind { PROCESS_STDIN, PROCESS_STDOUT, PROCESS_STDERR, PROCESS_PIPES };

/* Our end of one of its pipes. */
struct process_pipe {
	struct process *p;
	enum process_pipe_kind kind;
	int fd; /* -1: closed */
	uv_poll_t *poll;
};

/* Stdin bytes its pipe had no room for. */
struct process_input {
	STAILQ_ENTRY(process_input) entry;
	uint64_t seq;
	size_t len, at;
	bool close; /* end of stdin */
	uint8_t bytes[];
};

struct process {
	LIST_ENTRY(process) entry;
	struct agent *agent;
	char id[AGENT_ID_MAX + 1];
	char *program;
	pid_t pid;
	struct reaper_watch watch;
	struct request *starter;
	struct leaf *leaf;
	struct channel *channel;
	struct process_pipe pipe[PROCESS_PIPES];
	STAILQ_HEAD(, process_input) input;
	bool started, ended, told;
	int status;
	uint64_t oom_at;
	unsigned grace_reads;
	bool input_held; /* the channel is paused */
	uint64_t told_seq;
	uv_timer_t timer;
};

void process_post(struct request *rq);
void process_attach(struct request *rq);
void process_signal(struct request *rq);
void process_delete(struct request *rq);

void process_kill_all(struct agent *a);
void process_tell_oom(struct agent *a);

/* Between the files of this object. */
void process_free(struct process *p);
int process_io_open(struct process *p, bool with_stdin, int childs[PROCESS_PIPES]);
void process_io_start(struct process *p);
/* It ended: tells so once its pipes are empty. */
void process_io_finish(struct process *p);
void process_io_free(struct process *p);

#endif
