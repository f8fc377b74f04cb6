/* The host's end of one sandbox's link: connects the agent's socket, keeps the
 * link up across cuts, and asks the agent's JSON routes.
 *
 * Hub thread only. Knows paths and JSON, nothing of sandboxes. What comes back
 * is bounded (AGENT_JSON_MAX) and parsed within limits; a guest that breaks HTTP/2
 * again and again is reported through broken().
 */
#ifndef CARREL_GUEST_H
#define CARREL_GUEST_H

#include <jansson.h>

#include "../fault.h"
#include "hub.h"
#include "link/link.h"

enum {
	/* Between two attempts to connect, and how long they go on while the
	 * machine itself lives: QEMU's socket is there from its start. */
	GUEST_RETRY_MS = 20,
	GUEST_CONNECT_MAX_MS = 10 * 1000,
	/* From connecting to connecting anew while there is no session, doubled from time to time: HELLO takes
	 * milliseconds, more on a host that is overloaded. */
	GUEST_AGAIN_MS = 1000,
	GUEST_AGAIN_MAX_MS = 16 * 1000,
	/* Without a session: an agent that is alive answers HELLO even on a host
	 * that is badly overloaded. */
	GUEST_DOWN_MAX_MS = 120 * 1000,
	/* Sessions that a peer may break before it counts as hostile. */
	GUEST_BREAKS_MAX = 8,
	GUEST_STEADY_MS = 60 * 1000, /* one that lasted so long clears those before it */
	/* Values in one JSON answer: 32 kernels or 1000 directory entries of six members, with room. */
	GUEST_VALUES_MAX = 64 * 1024,
	GUEST_DEPTH_MAX = 16,
	GUEST_CALL_MS = 15 * 1000, /* for what the agent answers from memory */
};

struct guest;

struct guest_ops {
	void (*up)(struct guest *g, void *arg);
	/* Given up: reason for the sandbox's end and a sentence. Called at most once. */
	void (*broken)(struct guest *g, const char *reason, const char *message, void *arg);
};

/* Starts connecting to path (copied). NULL: out of memory. */
struct guest *guest_new(struct hub *h, const char *path, const struct guest_ops *ops, void *arg);
/* Every open call ends with -ECANCELED, every stream is closed. Not from inside a link callback. */
void guest_free(struct guest *g);
bool guest_is_up(const struct guest *g);
struct link *guest_link(struct guest *g);
/* From now on everything is told to another; calls under way keep their callbacks. */
void guest_hand_over(struct guest *g, const struct guest_ops *ops, void *arg);
/* The machine stands still, or moves again: no answer is expected meanwhile, the link stays. */
void guest_paused(struct guest *g, bool paused);
/* The machine is about to stand still: the descriptor is closed at once, every call and stream ends with
 * -ECONNRESET, and nothing is connected until it is let go again; then as from guest_new() on. Not from inside a
 * link callback. */
void guest_hold(struct guest *g, bool held);

/* err: 0, or -ECONNRESET, -ETIMEDOUT, -ECANCELED, -EBADMSG (not JSON, too large).
 * reply is borrowed; NULL for an empty body. */
typedef void (*guest_cb)(int err, int status, json_t *reply, void *arg);
/* body is borrowed, NULL: none. 0, then cb exactly once and not from inside this
 * call; or -ENOTCONN, -EAGAIN, -ENOMEM and no callback. */
int guest_call(struct guest *g, const char *method, const char *path, json_t *body, unsigned timeout_ms,
	       guest_cb cb, void *arg);

/* The fault for an agent's answer that was not what was asked for: its own code
 * and sentence where they are known ones. Returns the negative errno. */
int guest_fault(struct fault *f, int err, int status, json_t *reply);

#endif
