/* `carrel kernel`: a kernel for a Jupyter client on this machine that runs in a
 * sandbox of an appliance somewhere.
 *
 * local/local.h has the five ZeroMQ sockets of the connection file, remote.h the
 * WebSocket to the appliance; bridge.c carries messages between them and does
 * what a kernel's process does at interrupt, restart and end. One libuv loop;
 * what waits for HTTP is done on libuv's pool.
 */
#ifndef CARREL_BRIDGE_H
#define CARREL_BRIDGE_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "../command/command.h"
#include "../jupyter/v1_frame.h"
#include "../local/asked.h"
#include "copy_files.h"
#include "remote.h"
#include "turns.h"

enum {
	/* A cell's end to the copying of its files: cells that follow each other share one. */
	BRIDGE_FILES_MS = 50,
	/* Messages on iopub that are remembered: more than a kernel sends before it is told that they came.
	 */
	BRIDGE_SEEN = 8192,
	/* Whoever ends this waits five seconds before it kills. */
	BRIDGE_END_S = 15,
};

struct bridge_options {
	const char *connection_file, *language, *files; /* files: a directory, or NULL */
	unsigned idle_s;
};

struct bridge {
	struct command *command;
	const struct bridge_options *options;
	uv_loop_t loop;
	struct local *local;
	struct remote *remote;
	char kernel_id[64], sandbox_id[64];
	struct asked_list asked;
	struct turns turns;
	bool connected; /* once at least */
	/* Hashes of the headers of what iopub's subscribers got last, and how many of the next messages may
	 * be among them: behind a restart, a kernel says again what the appliance had not noted. */
	uint64_t seen[BRIDGE_SEEN];
	unsigned seen_at, doubtful;
	bool used; /* a cell has run */
	struct copy_files *files;
	bool files_due, files_busy;
	uv_timer_t files_timer;
	uv_signal_t signals[3];
	uv_poll_t parent;
	int parent_fd;
	bool ending, end_due, shutdown, restart, signalled;
	int code; /* the process's */
};

/* Runs until the client or a signal ends it. An exit code. */
int bridge_run(struct command *c, const struct bridge_options *options);

/* Ends it, with that code. */
void bridge_end(struct bridge *b, int code);
/* A cell has run: its files are looked at in a moment. */
void bridge_files_wanted(struct bridge *b);

/* bridge_talk.c */
extern const struct local_ops bridge_local_ops;
extern const struct remote_ops bridge_remote_ops;

/* jobs.c: one HTTP request or several, off the loop. */
struct bridge_job {
	uv_work_t work;
	struct bridge *bridge;
	struct http http;
	void (*run)(struct bridge_job *job);  /* on the pool */
	void (*done)(struct bridge_job *job); /* on the loop; the job is freed behind it */
	void *arg;
	int code; /* an exit code */
	char message[1024];
	char kernel_id[64], sandbox_id[64];
	bool gone, reused;
};

/* False: out of memory. */
bool bridge_job(struct bridge *b, void (*run)(struct bridge_job *job), void (*done)(struct bridge_job *job),
		void *arg);
/* What jobs do. */
void job_start(struct bridge_job *job);
void job_check(struct bridge_job *job);
void job_interrupt(struct bridge_job *job);
void job_end(struct bridge_job *job);
void job_files(struct bridge_job *job);
/* "CONNECTION_FILE.carrel": which sandbox a restarted process goes on with. */
void state_forget(const struct bridge *b);

#endif
