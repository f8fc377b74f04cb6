/* Echoes what comes to the heartbeat socket, in a thread of its own. */
#ifndef CARREL_HEARTBEAT_H
#define CARREL_HEARTBEAT_H

#include <pthread.h>
#include <stdbool.h>

struct heartbeat {
	void *sock;
	pthread_t thread;
	bool started;
};

/* sock is a bound ROUTER and belongs to the thread from here on. The thread ends
 * when the ZeroMQ context is shut down. -errno. */
int heartbeat_start(struct heartbeat *hb, void *sock);
void heartbeat_join(struct heartbeat *hb);

#endif
