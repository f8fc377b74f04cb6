/* Lines of requests, each served in order by a thread of its own: the main
 * shell, and subshells (JEP 91) beside it.
 *
 * The main thread reads the shell socket itself while there is no subshell, so
 * that a request changes no thread. With the first subshell the control thread
 * takes the socket over for good and hands each request to its line.
 */
#ifndef CARREL_SHELL_H
#define CARREL_SHELL_H

#include <pthread.h>
#include <stdbool.h>
#include "core/request.h"

struct core;

enum {
	/* 16 random bytes in hex. */
	SHELL_ID_LEN = 32,
	/* Subshells alive at once: each is a thread, and a client asks for them. */
	SUBSHELLS_MAX = 32,
};

struct shell {
	struct core *core;
	struct shell *next;
	char id[SHELL_ID_LEN + 1]; /* "" for the main shell */
	/* Guarded by core.queue_lock. */
	struct request *pending, **tail;
	unsigned long arrived; /* requests so far */
	struct request *asked; /* the create or delete request that is not answered yet */
	bool stop;
	pthread_cond_t wake; /* subshells only */
	/* What is being served; its own thread only. */
	const struct request *current;
};

void shell_init(struct shell *s, struct core *c);
/* The calling thread serves s from here on. */
void shell_enter(struct shell *s);
/* The line that the calling thread serves; threads of the user's code: the main one. */
struct shell *shell_self(struct core *c);

/* Take all that came by the shell socket, unless the control thread does. Main thread. */
void shell_receive(struct core *c);
/* Wait for a request or a wake-up, at most timeout_ms (-1: for ever). Main thread. */
void shell_wait(struct core *c, int timeout_ms);
/* A descriptor that becomes readable with the next request, when all that came
 * was taken; -1: core.wake_fd says it. Main thread. */
int shell_fd(struct core *c);
/* The next request of a line, or NULL. Its own thread. */
struct request *shell_next(struct shell *s);
/* No request waits on this line. */
bool shell_is_empty(struct shell *s);
/* The next comm message of the main line, before what waits in front of it; NULL: none. */
struct request *shell_next_comm(struct core *c);
/* Mark every execute_request that waits behind a failed one. The line's own thread. */
void shell_abort_queued(struct shell *s);
/* Reply to a request of the shell channel. Any serving thread; steals content. */
void shell_reply(struct core *c, const struct request *r, const char *type, json_t *content);
/* The socket has the control thread as its owner from now on. Control thread. */
void shell_take_over(struct core *c);
/* Give a request to its line. False: its subshell does not exist, and r is not taken.
 * The thread that reads the socket. */
bool shell_route(struct core *c, struct request *r);

/* ---- subshells; control thread ---- */

/* create_, delete_ and list_subshell_request, busy and idle included; takes r over. */
void subshell_serve(struct core *c, struct request *r);
bool subshell_serves(const struct core *c, const char *type);

#endif
