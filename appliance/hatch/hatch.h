/* The hatch: Jupyter clients on this host that speak ZeroMQ, at a kernel of this
 * appliance, by a connection file as Jupyter has it.
 *
 * A hatch is the five sockets of one kernel and, for carreld, one client of it
 * (core/client.h) whatever number of programs are behind it. It is made when it is asked for,
 * is shared by all that ask, and ends with its kernel or with carreld. After a
 * restart of carreld it is asked for again, and has another key.
 *
 * ipc: sockets in a directory that only root, carreld and the group of who started
 * Carrel can enter. tcp: ports of the loopback, where anyone on this host who
 * knows no key can still read the output, as with any Jupyter kernel on TCP.
 */
#ifndef CARREL_HATCH_H
#define CARREL_HATCH_H

#include <jansson.h>

#include "../fault.h"
#include "../settings.h"

enum {
	/* On the whole host: each has its own ZeroMQ context, that is two threads and some twenty descriptors. */
	HATCHES_MAX = 64,
};

enum hatch_transport { HATCH_IPC, HATCH_TCP };

struct core;
struct hatches;

/* settings and core are borrowed until hatches_stop(). */
int hatches_start(const struct settings *s, struct core *core, struct hatches **ret, struct fault *f);
/* Before the core stops. Accepts NULL. */
void hatches_stop(struct hatches *all);
/* Any thread but the hub's. *ret: the connection file, the caller's reference. */
int hatch_open(struct hatches *all, const char *owner, const char *kernel_id, enum hatch_transport transport,
	       json_t **ret, struct fault *f);

#endif
