/* The five ZeroMQ sockets of a connection file, as a kernel binds them.
 *
 * Whole messages in both directions, signed and checked; heartbeat and
 * iopub_welcome are answered here. Knows nothing of what the messages mean but
 * that a header is JSON with a msg_type and a msg_id. All on one libuv loop.
 *
 * What iopub's subscribers do not take waits here, so that it holds up no reply;
 * so does a question for a client whose stdin socket is not connected yet.
 */
#ifndef CARREL_LOCAL_H
#define CARREL_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "../jupyter/v1_frame.h"
#include "core/connection.h"
#include "core/wire.h"

enum {
	/* Output that waits for its subscribers; past it local_send() takes no more. */
	LOCAL_HELD_MAX = 1024 * 1024,
	/* A client connects its sockets one after the other, within milliseconds. */
	LOCAL_QUESTION_MS = 10 * 1000,
};

enum local_channel { LOCAL_SHELL, LOCAL_CONTROL, LOCAL_STDIN, LOCAL_IOPUB, LOCAL_HB, LOCAL_CHANNELS };

/* Identities of who sent a request, one allocation. */
struct local_idents {
	size_t n;
	struct slice slice[WIRE_IDENTS_MAX];
	char *bytes;
};

struct local_message {
	enum local_channel channel;
	const char *msg_type, *msg_id;
	const struct slice *idents;
	size_t n_idents;
	struct v1_part part[V1_PARTS_MAX];
	size_t parts;
};

struct local_ops {
	/* Valid until it returns. */
	void (*message)(const struct local_message *m, void *arg);
	/* local_send() takes output again. */
	void (*writable)(void *arg);
	/* A message was dropped, and why; a sentence. */
	void (*dropped)(const char *why, void *arg);
	/* local_close() is done: the last call. May be NULL. */
	void (*closed)(void *arg);
};

struct local;

/* Binds them; a TCP address may end in ":*". 0, or a negative errno with a sentence. */
int local_open(uv_loop_t *loop, const struct connection *where, const struct local_ops *ops, void *arg,
	       struct local **ret, char *why, size_t why_size);
/* The port of a TCP socket. */
int local_port(const struct local *l, enum local_channel channel);
/* False: clients' messages are left to wait in their sockets. */
void local_read(struct local *l, bool on);
/* The sockets are closed and what was said last is delivered on libuv's pool; the loop must run until then.
 * Accepts NULL. */
void local_close(struct local *l);
/* A message as it is, to whom it may concern (idents NULL: iopub's subscribers). -EAGAIN, of output only:
 * LOCAL_HELD_MAX waits, writable() tells. */
int local_send(struct local *l, enum local_channel channel, const struct local_idents *idents,
	       const struct v1_part *part, size_t parts);
/* One with a header of our own; it may pass the bound. */
int local_say(struct local *l, enum local_channel channel, const struct local_idents *idents,
	      const char *msg_type, const char *parent, size_t parent_len, const char *content);
/* The same for the state of the kernel, on iopub; parent NULL: {}. */
void local_say_state(struct local *l, const char *parent, size_t parent_len, const char *state);
int local_idents_copy(const struct slice *idents, size_t n, struct local_idents *ret);
void local_idents_free(struct local_idents *i);
/* "shell", …; LOCAL_CHANNELS: none of that name. */
const char *local_channel_name(enum local_channel channel);
enum local_channel local_channel_of(const char *name);

#endif
