/* What the files of the core share: the core itself. Everything in it belongs
 * to the hub's thread once core_start() has returned. */
#ifndef CARREL_CORE_INNER_H
#define CARREL_CORE_INNER_H

#include "../../vmm/engine.h"
#include "core.h"
#include "figures.h"
#include "hub.h"
#include "image.h"

struct sandbox;
struct sandbox_waiter;
struct template;
struct template_set;
struct pool;
struct unstored;
struct usage;
struct orphan;

enum { CORE_ENGINES_MAX = 4 }; /* more than there are names */

struct core_engine {
	struct engine *engine;
	char fingerprint[512];
	bool named; /* requests may name it */
};

struct core {
	const struct settings *settings;
	struct store *store;
	struct hub *hub;
	struct engine *engine; /* its own: what `auto` means */
	struct core_engine engines[CORE_ENGINES_MAX]; /* that one first, engines.h */
	unsigned engine_count;
	struct image image;   /* of the default template */
	struct image *images; /* others that were asked for, images.h */
	struct template_set *templates;
	struct template *default_template;
	struct pool *pool;
	struct unstored *unstored;
	struct usage *usage;
	struct orphan *orphans; /* machines without a row, being stopped */
	char *spawn_path;
	char run_dir[300];         /* runtime directories of machines: $STATE/run */
	struct sandbox *sandboxes; /* all that have not ended */
	unsigned memory_mb;        /* what sandboxes may use together */
	struct tally starts, ends, executions, lives;
	unsigned starting; /* clones that have their turn in starts.h */
	struct hub_item starts_item;
	bool stopping;
	bool end_sandboxes;
	struct hub_call *stop_call; /* waits for what core_stop() ends */
	struct hub_timer *stop_timer;
};

/* "asked" and the like: named reasons that more than one file uses. */
#define REASON_ASKED "asked"
#define REASON_DEADLINE "deadline"
#define REASON_EXPIRED "expired"
#define REASON_HOST_RESTART "host-restart"
#define REASON_DISK_FULL "host-disk-full"
#define REASON_STORE_FAILED "store-failed"
#define REASON_PROTOCOL "protocol-error"
#define REASON_CPU_LIMIT "cpu-limit"
#define REASON_OUTPUT_LIMIT "output-limit"

/* One line on stderr, with the core's name in front. */
void core_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Something that core_stop() may wait for is over. */
void core_check_stopped(struct core *c);

/* calls.c: the hub knows live sandboxes only; one that ended is told apart from
 * one that never was by its row. Returns err or what takes its place. */
int refine_missing(struct core *c, const char *owner, const char *id, int err, struct fault *f);

/* life_calls.c: after a call failed with f: when that was because of something under way on the sandbox (named
 * by its id, or by that of a kernel in it), waits for its end; wake: resumes a paused one that wants it. True: try again. */
bool core_settle(struct core *c, const char *owner, const char *id, const char *kernel_id, bool wake,
		 struct fault *f);
/* A sandbox from a named snapshot: core_sandbox_create() with spec->snapshot. */
int core_snapshot_start(struct core *c, struct sandbox_waiter *w, struct fault *f);

/* recover.c: rows and machines of before this start. On the caller's thread, before the hub runs. */
int recover(struct core *c, struct fault *f);
/* recover_sweep.c: what no row speaks of; after the rows. */
int recover_sweep(struct core *c, struct fault *f);

#endif
