#include "core/heartbeat.h"
#include "core/threads.h"

#include <errno.h>
#include <zmq.h>

static void *heartbeat_main(void *arg)
{
	struct heartbeat *hb = arg;

	/* Returns when the context is shut down, or by a signal in a debugger. */
	while (zmq_proxy(hb->sock, hb->sock, NULL) < 0 && errno == EINTR)
		;
	zmq_close(hb->sock);
	return NULL;
}

int heartbeat_start(struct heartbeat *hb, void *sock)
{
	int err;

	*hb = (struct heartbeat){ .sock = sock };
	err = thread_start(&hb->thread, "heartbeat", heartbeat_main, hb, SCHED_OTHER);
	if (err)
		return err;
	hb->started = true;
	return 0;
}

void heartbeat_join(struct heartbeat *hb)
{
	if (!hb->started)
		return;
	pthread_join(hb->thread, NULL);
	hb->started = false;
}
