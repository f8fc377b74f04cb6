/* A Jupyter client of a kernel: what it asks, and what it is owed.
 *
 * A client is a session, not a connection: one connection at a time carries it,
 * and after a cut the next one of the same session goes on where that left off.
 * Messages to it are numbered 1, 2, 3, …; those from it are counted. A client
 * that resumes (struct client_hello) acknowledges what it got, and until then it
 * is kept for it; for any other what was written counts as received.
 *
 * Its execute_requests become executions (execution.h), other shell, control and
 * stdin requests go through the kernel's channel in order. The kernel's iopub
 * messages reach every client of the kernel, replies the one that asked.
 *
 * While a client takes nothing the kernel's channel is paused; one that is away
 * for longer than its bound is forgotten, and a connection of it begins anew.
 * Hub thread only.
 */
#ifndef CARREL_CLIENT_H
#define CARREL_CLIENT_H

#include "../jupyter/v1_frame.h"
#include "core_inner.h"
#include "jupyter.h"

struct kernel;
struct execution;

enum {
	/* Sessions of one kernel: tabs, terminals, and those that went away a moment ago. */
	CLIENTS_MAX = 64,
	CLIENT_SESSION_MAX = 128, /* name of a session, its NUL included */
	/* Bytes kept for a connected client before the kernel waits for it. */
	CLIENT_WINDOW = 1024 * 1024,
	/* Bytes kept at most: what was under way when the kernel was told to wait. Past it the client is cut
	 * and forgotten. */
	CLIENT_KEEP_MAX = 32 * 1024 * 1024,
	/* And for one that has no connection: there may be CLIENTS_MAX of them. */
	CLIENT_AWAY_MAX = 8 * 1024 * 1024,
	/* How long the kernel waits for a client that was cut and resumes, or takes nothing. */
	CLIENT_GRACE_MS = 60 * 1000,
	/* How long a session is kept for the next connection while it costs nobody anything. */
	CLIENT_AWAY_MS = 30 * 60 * 1000,
	/* Messages from a client that wait for their turn before it is read no further. */
	CLIENT_INTAKE_MAX = 64,
	/* Executions of clients that wait for one kernel: a notebook is sent at once, cell by cell. */
	CLIENT_QUEUE_MAX = 1000,
	/* Requests that wait to be sent, or for their reply. */
	CLIENT_REQUESTS_MAX = 1000,
	CLIENT_HEADER_MAX = 16 * 1024, /* JSON of a request's header; it comes back with each answer */
};

/* A message to clients, as a 'J' frame's payload (kernels/agent/PROTOCOL.md). Counted, never changed. */
struct client_msg {
	unsigned refs;
	size_t len;
	uint8_t payload[];
};

struct client_msg *client_msg_ref(struct client_msg *m);
void client_msg_unref(struct client_msg *m);

/* Why a connection is not wanted any more. */
enum client_end { CLIENT_REPLACED, CLIENT_KERNEL_GONE, CLIENT_TOO_SLOW, CLIENT_STOPPED };

struct client_ops {
	/* There is something to take, or it may be read again. */
	void (*wake)(void *arg);
	/* The connection is let go; client_leave() is not called for it. */
	void (*end)(void *arg, enum client_end why);
};

struct client_hello {
	const char *session;
	const char *key_id; /* of the key it came with; NULL: none, a connection file is its right */
	bool resumes;      /* it acknowledges, and says what it has */
	uint64_t received; /* highest number it has */
};

struct client;

/* A connection of that session; an earlier one of it is ended. *ret_known: what was kept goes on from
 * hello->received + 1; else the session begins at 1. 0, -EAGAIN: too many, -ENOMEM. */
int client_join(struct kernel *k, const struct client_hello *hello, const struct client_ops *ops, void *arg,
		struct client **ret, bool *ret_known);
/* Its connection is gone; the session stays a while. */
void client_leave(struct client *c);
/* It said that it will not come again. */
void client_goodbye(struct client *c);
/* The next message to write, with a reference, and its number; NULL: none now. */
struct client_msg *client_take(struct client *c, uint64_t *ret_number);
/* What was taken was written (a client that does not resume), or the client has it. */
void client_received(struct client *c, uint64_t number);
/* How many messages came from it in this session. */
uint64_t client_count(const struct client *c);
/* False: no more now; wake() tells. */
bool client_reads(const struct client *c);
/* A message from it; parts are copied. -EBADMSG: it is none. */
int client_message(struct client *c, enum jupyter_channel channel, const struct v1_part *part, size_t parts);

/* --- for the kernel --- */

/* A message of the kernel, checked, to whom it may concern. */
void clients_deliver(struct kernel *k, const struct jupyter_msg *m, const uint8_t *payload, size_t len);
/* True while the kernel must wait for one. */
bool clients_behind(const struct kernel *k);
bool clients_any(const struct kernel *k);
unsigned clients_connected(const struct kernel *k);
/* Sends the requests whose turn it is. */
void clients_pump(struct kernel *k);
/* Its process died having received our frames up to `last`: what it still owed is answered. */
void clients_died(struct kernel *k, json_t *death, uint64_t last, bool restarting);
/* No more kernel: connections are ended, sessions forgotten. */
void clients_end(struct kernel *k, enum client_end why);

/* The kernel said that it failed: what its session asks from now on is not stopped by that. */
void client_execution_failed(struct execution *e);
/* An execution that a client asked for came to its end before or without the kernel's own words. */
void client_execution_ended(struct execution *e);
/* Text of a death, as stderr of the running cell. */
void client_execution_text(struct execution *e, const char *text);

#endif
