/* The warm snapshots, one an engine, image and size class: looked up,
 * checked once, built when missing, built again when they no longer load.
 *
 * Hub thread only. One build runs at a time; the others wait their turn.
 */
#ifndef CARREL_TEMPLATE_H
#define CARREL_TEMPLATE_H

#include "core_inner.h"
#include "set.h"
#include "snapshot.h"

enum {
	/* Boots that fail before one is given up: on a loaded host the guest's
	 * clock calibration can fail. */
	TEMPLATE_TRIES = 3,
	/* After a failure nobody builds for this long. */
	TEMPLATE_REST_MS = 60 * 1000,
	/* Clones that fail in a row before their snapshot counts as spoilt. */
	TEMPLATE_CLONE_FAILURES = 2,
};

/* Code of a fault that another try would end in, too. */
#define TEMPLATE_WARM_FAILED "warm_failed"

enum template_state {
	TEMPLATE_NONE,
	TEMPLATE_CHECKING,
	TEMPLATE_WAITING,
	TEMPLATE_BUILDING,
	TEMPLATE_READY,
	TEMPLATE_FAILED
};

struct template_build;

struct template
{
	struct template *next;
	struct core *core;
	struct engine *engine;
	struct image *image;
	struct vm_class cls;
	enum template_state state;
	char path[SNAPSHOT_PATH_MAX];
	struct snapshot snapshot; /* READY */
	unsigned tries, clone_failures;
	unsigned generation; /* of the snapshot: another one once its files were given up */
	unsigned users; /* sandboxes that copy from the snapshot's files now */
	int64_t failed_at_ms;
	char why[320]; /* what is under way, or what went wrong */
	struct template_build *build;
	struct fault fault; /* of work on the pool */
	bool unsealed;
	bool fresh; /* its engine saves nothing: there is no snapshot, and every machine is started afresh */
};

struct template_set;

int template_set_new(struct core *c, struct template_set **ret, struct fault *f);
/* Nothing may be under way. Accepts NULL. */
void template_set_free(struct template_set *ts);

/* The smallest class that holds what is asked for; false: none does, boot with exactly that. */
bool template_class(unsigned memory_mb, double cpus, unsigned disk_mb, struct vm_class *ret);
/* The one of that engine, image and class, made known (and checked or built in the background) on first use. NULL: out of
 * memory. */
struct template *template_get(struct core *c, struct engine *engine, struct image *image, const struct vm_class *cls);
/* True: .snapshot can be cloned now. Otherwise sees to it that it can be later. */
bool template_ready(struct template *t);
/* How a clone went: two failures in a row spoil the snapshot, and it is built again. */
void template_clone_result(struct template *t, bool loaded);
/* The warm snapshots of an image that is gone from the cache go, too. False: not yet, something works on them. */
bool templates_forget(struct core *c, const struct image *image);
/* Megabytes of RAM that builds use now, for admission. */
unsigned template_memory_mb(const struct core *c);
/* Ends a build that is under way; false: there is none (any more). */
bool templates_cancel(struct core *c);

/* What set_open() checks against: this host with that engine, and the memory of base where it is one
 * that was checked. Its descriptors are the caller's, to close by template_host_close(). */
void template_set_host(struct core *c, const struct engine *engine, const struct base *base, struct set_host *ret);
void template_host_close(struct set_host *host);

/* template_build.c */
void template_build_start(struct template *t);
void template_build_cancel(struct template_build *b);
/* Called by the build at its end: err 0: t->snapshot is open. */
void template_built(struct template *t, int err, const struct fault *f);

#endif
