/* Whose turn it is: the states of a kernel that answers from afar, said in time.
 *
 * jupyter-console takes any idle of its session for the end of its cell, unless a
 * busy came within 50 ms; a kernel in the same machine is that fast, one behind a
 * network is not. So a request is called busy here as soon as it is the next, and
 * the kernel's own word for it is left out when it comes; and the idle of an
 * interrupt waits for that of the request which it ends.
 *
 * The kernel serves the shell's requests in their order, which is all that is
 * known here. Requests of subshells go their own way and are not kept.
 */
#ifndef CARREL_TURNS_H
#define CARREL_TURNS_H

#include "../local/local.h"

enum {
	/* Requests that wait behind each other. Past it they are forgotten, and
	 * busy is said when the kernel says it. */
	TURNS_MAX = 10000,
	/* How long an interrupt's idle waits for code that takes no interrupt. */
	TURNS_INTERRUPT_MS = 2000,
};

struct turn;

struct turns {
	struct local *local;
	struct turn *first, **last;
	unsigned count;
	struct turn *interrupt; /* whose idle waits */
	uv_timer_t timer;
};

void turns_init(struct turns *t, uv_loop_t *loop, struct local *local);
/* Nothing is said any more; the timer is the caller's to close. */
void turns_free(struct turns *t);
/* The client sent a request on its shell channel. */
void turns_asked(struct turns *t, const struct local_message *m);
/* A state of the request came: is the client to be told? */
bool turns_tells(const struct turns *t, const char *msg_id, const char *state);
/* And it was told, or the request came to nothing (state "idle"). */
void turns_told(struct turns *t, const char *msg_id, const char *state);
/* Say idle for an interrupt with that header, now or when what it ends is at its end. */
void turns_interrupted(struct turns *t, const struct v1_part *header);

#endif
