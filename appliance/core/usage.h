/* Accounting: what each sandbox uses, into the store's hours.
 *
 * Memory over time is its limit times the time it runs; processor time is its
 * control group's, asked of carrel-spawn every USAGE_EVERY_MS, at a pause and at
 * an end that carreld brings about. What a machine used between the last reading
 * and a death of its own is not known. One that has used what its limit allows since it
 * first ran is ended.
 *
 * Hub thread only.
 */
#ifndef CARREL_USAGE_H
#define CARREL_USAGE_H

#include "core_inner.h"

enum {
	USAGE_EVERY_MS = 10 * 1000,
	/* One with a limit is read when it could be there at the earliest, but not more often than this. */
	USAGE_LIMIT_MS = 250,
};

struct sandbox;
struct usage;

/* Of a sandbox. */
struct used {
	int64_t at_ms;               /* accounted up to here; 0: it does not run */
	uint64_t counter_us, read_us; /* its machine's counter: accounted for, and read last */
	uint64_t left_us;             /* of machines before it, not accounted for yet */
	int64_t life_us;              /* read of all since it first ran; -1: not read since */
	struct hub_timer *limit;      /* when it is read for its limit */
};

int usage_new(struct core *c, struct usage **ret);
void usage_free(struct usage *u);
/* Of a new record: 0, or -ENOMEM. */
int usage_begin(struct sandbox *sb);
/* One of before this start. */
void usage_recover(struct sandbox *sb);
/* What it used up to now goes into the transaction; whether it runs from now on is its state's. */
void usage_account(struct sandbox *sb, struct store_txn *t);
/* The last that is told of it. */
void usage_end(struct sandbox *sb, struct store_txn *t);
/* It has a machine whose counter begins at 0. */
void usage_machine(struct sandbox *sb);
/* It runs: a limit that it has is watched from now on. Again after a pause. */
void usage_watch(struct sandbox *sb);
/* Its record goes. */
void usage_forget(struct sandbox *sb);
/* Its counter is asked for, before its machine goes. */
void usage_read(struct sandbox *sb);

#endif
