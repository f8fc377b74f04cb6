/* The sockets of one kernel process, seen from its client: DEALER for shell,
 * control and stdin, SUB for iopub, over ipc.
 *
 * Does: connect, sign, verify, read in turns, hold back while the taker is full.
 * Does not: interpret messages, beyond telling answers to the agent's own
 * requests (their parent carries this object's session) from the host's.
 * A malformed or wrongly signed message is logged and skipped.
 */
#ifndef CARREL_AGENT_JUPYTER_H
#define CARREL_AGENT_JUPYTER_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "wire.h"

struct jupyter;

struct jupyter_ops {
	/* own: an answer to jupyter_request(). The message lives until return.
	 * May close the object. */
	void (*message)(struct jupyter *j, enum wire_channel ch, const struct wire_message *m, bool own,
			void *arg);
	/* The taker has no room: all but control is left in its socket until jupyter_kick(). */
	bool (*full)(struct jupyter *j, void *arg);
	/* After -EAGAIN of jupyter_send() on ch: it takes messages again. */
	void (*writable)(struct jupyter *j, enum wire_channel ch, void *arg);
	/* The other end of one more socket is there (asked by jupyter_connected()). */
	void (*connected)(struct jupyter *j, void *arg);
	/* The other end closed one of the sockets (asked by jupyter_drained()). */
	void (*disconnected)(struct jupyter *j, void *arg);
};

/* address: "ipc:///path/k"; socket n is at address-n. key "": nothing is signed. */
int jupyter_open(uv_loop_t *loop, const char *address, const char *key, const struct jupyter_ops *ops,
		 void *arg, struct jupyter **ret);
void jupyter_close(struct jupyter *j);

/* Returns 0, -EAGAIN (later writable()) or another negative errno. */
int jupyter_send(struct jupyter *j, enum wire_channel ch, const struct wire_message *m);
/* A request of the agent's own; content is taken over. */
int jupyter_request(struct jupyter *j, enum wire_channel ch, const char *type, json_t *content);
/* Look at the sockets again: there is room, or something was sent. */
void jupyter_kick(struct jupyter *j);
/* True when every socket has its other end: a kernel's request for input, for
 * one, is lost before that. */
bool jupyter_connected(const struct jupyter *j);
/* True when no socket has a living other end and none holds a message. */
bool jupyter_drained(struct jupyter *j);
/* What stood before the message that is being told: iopub's topic. len 0: nothing. */
struct wire_part jupyter_topic(const struct jupyter *j);
/* Milliseconds of now_ms() when the last message came. */
uint64_t jupyter_last(const struct jupyter *j);

#endif
