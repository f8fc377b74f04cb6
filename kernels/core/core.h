/* A Jupyter kernel without its language: sockets, threads, requests, order.
 *
 * Threads: the caller of core_run() serves shell requests, one after another,
 * and runs the language; subshells do the same beside it (core/shell.h); control
 * serves its channel and interrupts;
 * iopub publishes (core/iopub.h); heartbeat echoes. Only the first two ever take
 * an interpreter's lock.
 *
 * Every execute_request gets one execute_reply. For every request: status busy,
 * what it causes, reply, status idle; captured output comes before the next
 * message that is no stream, before the reply and before idle.
 *
 * After fork() the child must not use the core: core_is_child() says so.
 */
#ifndef CARREL_CORE_H
#define CARREL_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "core/capture.h"
#include "core/connection.h"
#include "core/control.h"
#include "core/heartbeat.h"
#include "core/iopub.h"
#include "core/lang.h"
#include "core/request.h"
#include "core/shell.h"

enum {
	/* Milliseconds a failed execution waits for requests that its client sent
	 * together with it and that are still on their way through libzmq: there is
	 * no event for "no more come". */
	CORE_ABORT_GATHER_MS = 2,
	/* Milliseconds output may still need to leave at the end of the process. */
	CORE_STOP_MS = 1000,
	/* After an interrupt the main thread is woken that often more, first after
	 * CORE_NUDGE_MS, each time after twice as long: 1.3 s in all. */
	CORE_NUDGES = 7,
	CORE_NUDGE_MS = 10,
};

struct core {
	const struct lang_ops *ops;
	void *lang;
	struct connection conn;
	struct session session;
	void *zctx, *shell, *stdin_sock;
	struct wire_signer signer; /* of shell and stdin */
	struct iopub iopub;
	struct capture capture;
	struct unsent *unsent; /* NULL: nobody looks after it */
	struct control control;
	struct heartbeat heartbeat;
	int wake_fd; /* a request came by control, or it is time to stop */
	struct shell shell_line; /* the main shell */
	struct shell *subshells;
	pthread_mutex_t queue_lock; /* of the requests of all lines, and of the list above */
	/* Who uses the shell socket: see core/shell.h. */
	pthread_mutex_t shell_lock;
	atomic_bool shell_wanted;
	bool shell_handed;
	/* One question at a time: the stdin channel cannot tell answers apart. */
	pthread_mutex_t input_lock;
	atomic_int execution_count;
	atomic_bool stop;
	/* The user's code is running and may be interrupted. Guarded by lock, so
	 * that no signal is sent after it turned false. */
	pthread_mutex_t lock;
	bool interruptible;
	pthread_t main; /* the thread of core_run() */
	int interrupt_fd; /* readable once an interrupt came while waiting for input */
};

/* Bind, start the threads, publish status starting. Descriptors 1 and 2 are the
 * core's from here on. On failure a sentence is in why, and the process is of no more use. */
int core_start(struct core *c, const struct connection *conn, const struct lang_ops *ops, void *lang,
	       char *why, size_t why_size);
/* Serve until shutdown_request or core_stop(). */
void core_run(struct core *c);
/* Deliver what is queued, close the sockets and end the threads. The thread of
 * core_run() only; c is of no more use afterwards. */
void core_finish(struct core *c);

/* ---- for the language, on any thread (publish) or the main thread ---- */

/* Publish about the current request (or, between requests, the last executed).
 * Steals content and metadata; takes over buffers. -ENOMEM. */
int core_publish(struct core *c, const char *type, json_t *content, json_t *metadata,
		 struct iopub_buffer *buffers, size_t n_buffers);
/* The same about another request. quiet: it is silent, nothing is published. */
int core_publish_about(struct core *c, struct parent *parent, bool quiet, const char *type, json_t *content,
		       json_t *metadata, struct iopub_buffer *buffers, size_t n_buffers);
/* Queue text of a stream (0 stdout, 1 stderr) that belongs to another request
 * than what the descriptors carry. Any bytes; what is no UTF-8 becomes U+FFFD. */
int core_put_text(struct core *c, int stream, struct parent *parent, const char *text, size_t len);
/* Serve comm messages that came while a cell waits for them. Main thread. */
void core_serve_comms(struct core *c);
/* Have output written so far published before what follows. */
void core_flush(struct core *c);
/* Wait until output has room; true: go on, false: not within 100 ms, look for
 * an interrupt and ask again. */
bool core_wait_room(struct core *c);
void core_interruptible(struct core *c, bool on);
/* Ask the client of the current request. 0: value is a new string; -EINTR: look
 * for an interrupt and call core_input_wait() again. */
int core_input_ask(struct core *c, const char *prompt, size_t len, bool password);
int core_input_wait(struct core *c, json_t **ret_value);
/* Between ask and the end of its wait. -EBUSY: another thread asks something. */
int core_input_begin(struct core *c);
void core_input_end(struct core *c);
/* Raise SIGINT in the user's code, if any runs, and in its children. Any thread. */
void core_interrupt(struct core *c);
/* An interpreter looks for signals between its steps. One that comes between the
 * last look and a system call, or to another thread, leaves that call asleep:
 * make it return, so that the interpreter looks again. False: no code runs. */
bool core_nudge(struct core *c);
void core_stop(struct core *c);
/* Have the main thread look for requests. Any thread. */
void core_wake(struct core *c);

/* True in a child made by fork(), where no thread of the core lives. */
bool core_is_child(void);

#endif
