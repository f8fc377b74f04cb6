/* One machine of the pool: a clone, or where the engine has none a machine with
 * kernels, that has its own identity and has run the
 * hidden warm-up, and then waits with its vCPUs stopped until a sandbox takes it.
 *
 * It belongs to nobody and has no row: one that a crash of carreld leaves behind
 * is stopped by the next start as a machine without a row. Its id becomes the
 * sandbox's. Hub thread only.
 */
#ifndef CARREL_POOL_MEMBER_H
#define CARREL_POOL_MEMBER_H

#include "sandbox.h"

enum {
	/* From its start until it is ready, on a host that is badly loaded; 3 s on an idle one. */
	POOL_FILL_MS = 120 * 1000,
	/* The keeper ends what waited longer, should carreld be gone for good; it is replaced before that. */
	POOL_LIFE_MS = 60 * 60 * 1000,
	POOL_AGE_MS = 55 * 60 * 1000,
};

enum pool_step {
	POOL_FILES,    /* its disk is being made */
	POOL_STARTING, /* until its link is up */
	POOL_IDENTITY,
	POOL_KERNELS, /* of one that has none, because it is no clone */
	POOL_WARMUP,
	POOL_SETTLING, /* the identity once more: for those who bring an environment, that way is warm, too */
	POOL_PAUSING,
	POOL_READY,
	POOL_OVER, /* waits for what still works on it */
};

struct pool;
struct identity;
struct warmup;

struct pool_member {
	struct pool_member *next;
	struct core *core;
	char id[STORE_ID_MAX];
	enum pool_step step;
	struct template *template;
	unsigned generation; /* of the template's snapshot */
	struct vm_class cls;
	int64_t began_ms, ready_ms; /* monotonic */
	struct ready_machine machine;
	bool vm_ended, working, loaded;
	struct identity *identity;
	struct warmup *warmup;
	size_t language; /* whose default kernel is being started */
	struct hub_timer *timer;
	struct hub_item finish;
	char scratch_path[512];
	int scratch_err, scratch_fd;
	struct fault fault;
};

/* Starts one of the template, which is ready. NULL: out of memory. */
struct pool_member *pool_member_new(struct core *c, struct template *t);
/* It can be handed out now. */
bool pool_member_usable(const struct pool_member *m);
/* Ends it, in any step; pool_member_gone() follows. why: for the log, NULL: nothing is wrong. */
void pool_member_end(struct pool_member *m, const char *why);
/* Machine and disk become the sandbox's, which identifies it; frees m. */
void pool_member_give(struct pool_member *m, struct sandbox *sb);
/* At the core's stop, without the hub's thread: frees it, whatever it does. */
void pool_member_free(struct pool_member *m);

/* pool.c: a member waits; it ends for a reason; it is over and about to be freed. */
void pool_member_filled(struct pool_member *m);
void pool_member_lost(struct pool_member *m);
void pool_member_gone(struct pool_member *m);

#endif
