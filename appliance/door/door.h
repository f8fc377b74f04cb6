/* The WebSocket door: Jupyter clients on /jupyter/api/kernels/{id}/channels.
 *
 * nginx proxies them to channels.sock in the run directory. libwebsockets runs on
 * the hub's own loop, so a message goes from the kernel's channel to its clients
 * without changing threads. Frames of v1.kernel.websocket.jupyter.org, or the
 * legacy JSON ones where no subprotocol is offered.
 *
 * A client that says ?carrel_received=N (the highest number of a message of its
 * session that it has, 0 at first) resumes: it gets frames on a channel "carrel",
 * {"msg_type":"carrel_hello"} with {"received":M,"known":bool} first and
 * "carrel_ack" with {"received":M} later, where M counts what came from it, and
 * sends "carrel_ack" itself. What was not acknowledged is sent again after a cut.
 */
#ifndef CARREL_DOOR_H
#define CARREL_DOOR_H

#include "../core/core.h"

struct door;

/* core and store are borrowed until door_stop(). */
int door_start(const struct settings *s, struct store *store, struct core *core, struct door **ret,
	       struct fault *f);
/* Ends every connection; before the core stops. Accepts NULL. */
void door_stop(struct door *d);

#endif
