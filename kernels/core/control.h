/* The control channel: served while the user's code runs, without its lock.
 *
 * Answers kernel_info (from a copy), usage, interrupt, shutdown and what concerns
 * subshells by itself; every other request goes to the main thread and its answer
 * comes back here. Once there was a subshell it reads the shell socket, too.
 *
 * A kernel whose starter ended without a word (JPY_PARENT_PID names it) ends.
 */
#ifndef CARREL_CONTROL_H
#define CARREL_CONTROL_H

#include <pthread.h>
#include <stdbool.h>
#include <jansson.h>
#include "core/request.h"

struct core;
struct control_out;

enum {
	/* An identity that a client chose; longer ones are not remembered. */
	CONTROL_IDENT_MAX = 256,
};

struct control {
	struct core *core;
	void *sock;
	struct wire_signer signer;
	pthread_t thread;
	bool started;
	bool stopping;
	unsigned nudges; /* what is left of CORE_NUDGES; the thread's own */
	int wake_fd;
	pthread_mutex_t lock;
	/* Requests for the main thread, and answers and keys from it. */
	struct request *in, **in_tail;
	struct control_out *out, **out_tail;
	char *kernel_info; /* content of every kernel_info_reply */
	/* The request that came last, for those who ask whose it was. */
	struct parent *last;
	char last_ident[CONTROL_IDENT_MAX];
	size_t last_ident_len;
	int owner_fd; /* readable once the process that started the kernel ended; -1 */
};

/* kernel_info is taken over. -errno. */
int control_start(struct control *ctl, struct core *c, void *sock, const struct wire_signer *signer,
		  char *kernel_info);
void control_stop(struct control *ctl);
/* Main thread: the next request that came by control, or NULL. */
struct request *control_take(struct control *ctl);
/* The header of the request that came last, a new reference or NULL, and its
 * identity, of CONTROL_IDENT_MAX bytes at most. Any thread. */
struct parent *control_last(struct control *ctl, char *ret_ident, size_t *ret_len);
/* Answer one of them, or one of the shell channel when the control thread reads
 * that. Any serving thread. Steals content. */
void control_reply(struct control *ctl, const struct request *r, const char *type, json_t *content);
/* Control thread: send what others left in its queue. */
void control_send_out(struct control *ctl);
void control_drop_out(struct control *ctl);

#endif
