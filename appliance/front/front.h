/* The front: FastCGI workers between nginx and the core.
 *
 * Two sockets in the run directory. fcgi.sock takes requests that end soon,
 * stream.sock those that hold their thread (streams and the bytes of files), so
 * that delete, interrupt and /healthz always find a thread. A request past the
 * bound of its gate is answered 503 at once, never queued without limit.
 *
 * Thread-safe; start and stop belong to main().
 */
#ifndef CARREL_FRONT_FRONT_H
#define CARREL_FRONT_FRONT_H

#include <stdbool.h>

#include "../core/core.h"
#include "../fault.h"
#include "../settings.h"
#include "../store/store.h"

enum gate {
	GATE_QUICK,  /* answers from memory or the store */
	GATE_START,  /* waits for a sandbox to start, which may take a boot */
	GATE_VERB,   /* waits for a sandbox to do or be something: interrupt, delete, … */
	GATE_STREAM, /* holds its thread as long as the client likes */
	GATE_COUNT,
};

struct front;
struct hatches;
struct worker;

/* settings, store, core and hatches are borrowed until front_stop(). */
int front_start(const struct settings *s, struct store *store, struct core *core, struct hatches *hatches,
		struct front **ret, struct fault *f);
/* Accepts no more, cuts streams so that their clients notice, waits a bounded
 * time for the others. The number of workers still inside the core: with any,
 * core and store must not be taken down under them. Frees *f when it is 0. */
unsigned front_stop(struct front *f);

/* For the workers. */
bool front_gate_enter(struct front *f, enum gate gate);
void front_gate_leave(struct front *f, enum gate gate);
/* Inside GATE_STREAM, once the owner is known: may it have this stream too? The
 * bound of streams, stream_threads, holds for everyone; a few past it are for
 * owners who have hardly any. */
bool front_stream_seat(struct front *f, struct worker *w, const char *owner);
/* How many are inside now, and at most. */
unsigned front_gate_load(struct front *f, enum gate gate, unsigned *ret_limit);

#endif
