/* The pool: machines of the warm snapshots that have already started, so that a
 * sandbox needs but an identity of its own.
 *
 * Each size class of each engine has a target: the default one of the appliance's own
 * engine the setting `pool`, the others none, until sandboxes of it are asked for. A
 * target grows with every one that the pool could not give, up to `pool-max` machines
 * in all, and shrinks again when nobody comes. Filling is background work: few at a time, and only while no
 * sandbox is being created. What the pool holds it gives up as soon as a sandbox
 * needs the room.
 *
 * Hub thread only.
 */
#ifndef CARREL_POOL_H
#define CARREL_POOL_H

#include "figures.h"
#include "sandbox.h"

enum {
	/* How often it looks whether it may fill while something is missing: that the
	 * host is not busy has no event. Otherwise it looks for what is to shrink or too old. */
	POOL_FILL_TICK_MS = 200,
	POOL_IDLE_TICK_MS = 1000,
	/* A create is followed by its first cell: the host is left to it for so long. */
	POOL_QUIET_MS = 500,
	/* Without a create of its class for this long, a target sinks by one. */
	POOL_SHRINK_MS = 60 * 1000,
	/* After a machine that did not come up, filling rests. */
	POOL_REST_MS = 5 * 1000,
	/* The default of the setting `pool` for this host: one a CPU, within these. */
	POOL_DEFAULT_MAX = 8,
	POOL_DEFAULT_SHARE = 4, /* and at most one part in so many of the memory for sandboxes */
	/* The default of `pool-max`, as a multiple of `pool`. */
	POOL_GROWTH = 4,
};

struct pool;
struct pool_member;

/* 0, or -ENOMEM. */
int pool_new(struct core *c, struct pool **ret);
/* At the core's stop, without the hub's thread. Accepts NULL. */
void pool_free(struct pool *p);

/* A machine for a sandbox of that engine, image and class, or NULL. It stays here until pool_give(). */
struct pool_member *pool_find(struct core *c, const struct engine *e, const struct image *image,
			      const struct sandbox_spec *spec, const struct vm_class *cls);
/* The id it runs under, which becomes the sandbox's, and what it is a clone of. */
const char *pool_id(const struct pool_member *m);
struct template *pool_template(const struct pool_member *m);
void pool_give(struct pool_member *m, struct sandbox *sb);
/* A sandbox goes past the pool, as a clone of t or, with none, by a boot: what stands in its way is given up.
 */
void pool_missed(struct core *c, const struct engine *e, const struct sandbox_spec *spec,
		 const struct vm_class *cls, struct template *t);

/* Ends its machines of t, which is to go. False: some of them have not ended yet. */
bool pool_forget(struct core *c, const struct template *t);

/* What its machines may use. */
unsigned pool_memory_mb(const struct core *c);
unsigned pool_disk_mb(const struct core *c);
/* Ends all; false: there is nothing left to wait for. */
bool pool_cancel(struct core *c);
void pool_figures(const struct core *c, struct pool_figures *ret);

#endif
