/* Kernels: one object per id, one process after the other behind it.
 *
 * kernel.c          the table, the routes, what is told about a kernel
 * kernel_start.c    a process for the kernel, by its prepared parent or by argv
 * kernel_channel.c  frames of the host to and from its sockets
 * kernel_output.c   what it had printed and not sent when it died
 * kernel_unsent.c   what it had read of that and its client had not received
 * kernel_end.c      how it is interrupted, stopped, seen to die, started anew
 * kernel_identity.c new randomness, environment and key for a running one
 *
 *   FORKING -> STARTING -> ALIVE -> DRAINING -> FORKING (next generation) or DEAD
 */
#ifndef CARREL_AGENT_KERNEL_H
#define CARREL_AGENT_KERNEL_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "jupyter.h"
#include "limits.h"
#include "reaper.h"
#include "request.h"
#include "tail.h"

struct agent;
struct channel;
struct leaf;
struct spec;

enum kernel_phase {
	KERNEL_FORKING,  /* a process was asked for */
	KERNEL_STARTING, /* it runs, and has not yet answered on all sockets */
	KERNEL_ALIVE,
	KERNEL_DRAINING, /* it is gone; its sockets may still hold messages */
	KERNEL_DEAD,
};

enum kernel_wish { KERNEL_NO_WISH, KERNEL_WISH_RESTART, KERNEL_WISH_DELETE };

/* A frame of the host that the kernel's socket had no room for. */
struct kernel_frame {
	STAILQ_ENTRY(kernel_frame) entry;
	uint64_t seq;
	size_t len;
	uint8_t payload[];
};

struct kernel {
	LIST_ENTRY(kernel) entry;
	struct agent *agent;
	char id[AGENT_ID_MAX + 1];
	const struct spec *spec;
	char *cwd;
	json_t *env; /* of the request; may be NULL */

	enum kernel_phase phase;
	enum kernel_wish wish;
	bool busy;
	unsigned generation;
	uint64_t since; /* now_ms() when the phase began */
	struct request *starter, *stopper, *interrupter;
	uv_timer_t timer, interrupt_timer;
	unsigned open_handles;

	pid_t pid, last_pid; /* 0: none; of the generation before */
	struct reaper_watch watch;
	bool ended_early;
	int status;
	bool status_known;
	uint64_t oom_at;   /* now_ms() when the out-of-memory killer was seen in its leaf */
	char *start_error; /* there never was a process, and why */
	struct leaf *leaf;
	int stderr_fd;
	uv_poll_t *stderr_poll;
	struct tail crash;
	int output_fd[2]; /* the pipes of its stdout and stderr, to read what is left; -1 */
	int unsent_fd;    /* memory of core/unsent.h; -1 */
	uint64_t heard;   /* up to where its records were received */
	char *cell;       /* header of the last execute_request handed over; may be NULL */

	struct jupyter *jupyter;
	char key[65]; /* of the connection */
	bool info_seen, iopub_seen, reseed_due, identity_sent, identity_late;
	void (*identity_done)(void *arg, const char *message);
	void *identity_arg;

	struct channel *channel;
	STAILQ_HEAD(, kernel_frame) waiting;
	uint64_t handed;       /* seq of the last frame handed to any process */
	size_t detached_bytes; /* undroppable, sent while no host was attached */
	size_t over_bytes;     /* of control, sent while the channel was full */

	uint64_t deaths[KERNEL_DEATHS_MAX];
	unsigned death_count;
};

/* Routes. */
void kernel_post(struct request *rq);
void kernel_list(struct request *rq);
void kernel_delete(struct request *rq);
void kernel_interrupt(struct request *rq);
void kernel_restart(struct request *rq);
void kernel_attach(struct request *rq);

/* Of all kernels, an array. */
json_t *kernel_list_json(const struct agent *a);
/* Told by a prepared parent: a kernel of its ended; it ended itself. */
void kernel_process_ended(struct agent *a, pid_t pid, int status);
void kernel_parent_ended(struct agent *a);
/* Kills every kernel's process: the guest ends. */
void kernel_kill_all(struct agent *a);
/* Tells which leaves the out-of-memory killer struck in (events.h). */
void kernel_tell_oom(struct agent *a);

/* Between the files of this object. */
json_t *kernel_json(const struct kernel *k);
void kernel_phase_set(struct kernel *k, enum kernel_phase phase);
void kernel_free(struct kernel *k);
char *kernel_folder(const struct kernel *k);

void kernel_start(struct kernel *k);
void kernel_start_stop(struct kernel *k); /* lets go of a start under way */
/* Its information, iopub or one more of its sockets was heard. */
void kernel_start_heard(struct kernel *k);

int kernel_channel_open(struct kernel *k);
void kernel_channel_flush(struct kernel *k);
void kernel_channel_hold(struct kernel *k); /* no frames to the kernel until flush */
void kernel_channel_state(struct kernel *k, json_t *state);
/* The last one that was handed over. */
struct wire_part kernel_cell(const struct kernel *k);
/* A stream message about a cell. Steals text. */
void kernel_channel_stream(struct kernel *k, struct wire_part parent, const char *name, json_t *text);
/* A message of iopub whose header's place has its type only. */
void kernel_channel_message(struct kernel *k, struct wire_message *m);
void kernel_channel_free(struct kernel *k);
extern const struct jupyter_ops kernel_jupyter_ops;

void kernel_output_open(struct kernel *k);
/* Once it is dead and its sockets are empty: sends on what nobody read. */
void kernel_output_left(struct kernel *k);
void kernel_output_close(struct kernel *k);

extern const char *const kernel_stream_names[2];
void kernel_unsent_open(struct kernel *k);
void kernel_unsent_heard(struct kernel *k); /* the message of iopub that is being told */
void kernel_unsent_left(struct kernel *k);
/* The beginning of a line that was kept, after all else of the stream; to has UNSENT_LINE_MAX bytes. */
size_t kernel_unsent_line(struct kernel *k, int stream, char *to);
void kernel_unsent_close(struct kernel *k);

void kernel_died(struct kernel *k, int status, bool status_known);
/* There was no process for this generation; message is taken over. */
void kernel_failed(struct kernel *k, char *message);
void kernel_stop(struct kernel *k);
void kernel_interrupt_start(struct kernel *k);
void kernel_interrupt_answered(struct kernel *k);
void kernel_drain(struct kernel *k);

/* Asks for new randomness; done is called later, unless false is returned
 * because the kernel need not, or cannot now, be waited for. */
bool kernel_identity(struct kernel *k, bool other_machine, void (*done)(void *arg, const char *message),
		     void *arg);
/* One that nobody has used has nothing to forget: it takes the identity with its first
 * request, so that a clone whose Bash is never asked does not wait for Bash. */
bool kernel_identity_waits(struct kernel *k);
/* Before anything is handed to it: the identity that waited. */
void kernel_identity_late(struct kernel *k);
void kernel_identity_answered(struct kernel *k, const struct wire_message *m);
void kernel_identity_end(struct kernel *k, const char *message);

#endif
