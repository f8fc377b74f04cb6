/* The control channel: served while the user's code runs, without its lock.
 *
 * Answers kernel_info (from a copy), interrupt and shutdown by itself; every
 * other request goes to the main thread and its answer comes back here.
 */
#ifndef CARREL_CONTROL_H
#define CARREL_CONTROL_H

#include <pthread.h>
#include <stdbool.h>
#include <jansson.h>
#include "core/request.h"

struct core;
struct control_out;

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
};

/* kernel_info is taken over. -errno. */
int control_start(struct control *ctl, struct core *c, void *sock, const struct wire_signer *signer,
		  char *kernel_info);
void control_stop(struct control *ctl);
/* Main thread: the next request that came by control, or NULL. */
struct request *control_take(struct control *ctl);
/* Main thread: answer one of them. Steals content. */
void control_reply(struct control *ctl, const struct request *r, const char *type, json_t *content);
int control_rekey(struct control *ctl, const char *key, size_t len);

#endif
