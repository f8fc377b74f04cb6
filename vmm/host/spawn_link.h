/* The connection of carreld to carrel-spawn: fixed packets, queued while the
 * socket is full, and connected again by itself when carrel-spawn restarts.
 * Loop thread only. */
#ifndef CARREL_SPAWN_LINK_H
#define CARREL_SPAWN_LINK_H

#include <stdbool.h>
#include <uv.h>

#include "vmm/spawn_proto.h"

enum {
	SPAWN_LINK_RETRY_MS = 200,
	/* Requests that wait for room in the socket: more than one for each sandbox. */
	SPAWN_LINK_QUEUE_MAX = 2 * SPAWN_SANDBOXES_MAX,
};

struct spawn_link;

struct spawn_link_ops {
	void (*connected)(void *arg);
	void (*reply)(const struct spawn_reply *reply, void *arg); /* events as well */
};

/* Tries to connect at once; when that fails it goes on trying and this succeeds all the same. */
int spawn_link_new(uv_loop_t *loop, const char *path, const struct spawn_link_ops *ops, void *arg,
		   struct spawn_link **ret);
bool spawn_link_connected(const struct spawn_link *l);
/* Sets version and serial. The descriptors stay the caller's. -ENOTCONN: carrel-spawn
 * is not there; what was sent or queued before a loss of connection may not have
 * been done. */
int spawn_link_send(struct spawn_link *l, struct spawn_request *request, const int *fds, unsigned nfds);
void spawn_link_free(struct spawn_link *l);

#endif
