/* What sandboxes cost, by the hour: processor time, memory over time, how they
 * ended. Kept apart from history, and longer: the numbers of a month are there
 * when the month is over.
 *
 * A sandbox's reading (how far it was accounted for) goes with its numbers in one
 * transaction: over a restart nothing is counted twice or left out.
 */
#ifndef CARREL_STORE_USAGE_H
#define CARREL_STORE_USAGE_H

#include "store.h"

enum {
	USAGE_KEPT_DAYS = 400, /* a year and a month: last year's same month can be looked at */
	USAGE_TAG_MAX = 128,   /* bytes of a metadata key */
	USAGE_TAGS_MAX = 4096, /* of metadata, as JSON, kept with the numbers; what is more is left out */
};

struct usage_row {
	const char *sandbox_id, *owner_id;
	json_t *metadata;       /* borrowed */
	int64_t at_ms;          /* accounted up to here; 0: it does not run */
	int64_t counter_us;     /* of its machine's processor time, likewise */
	int64_t life_us;        /* and what its limit counts up to there; -1: nothing yet */
	int64_t cpu_us, mib_ms; /* since it was accounted for last */
	const char *ended;      /* the reason, once; or NULL */
};

void store_txn_usage(struct store_txn *t, const struct usage_row *row);
/* The last reading of a sandbox; 0, 0 and -1 where there is none. */
int store_usage_reading(struct store *s, const char *sandbox_id, int64_t *ret_at_ms, int64_t *ret_counter_us,
			int64_t *ret_life_us);

struct usage_query {
	const char *owner_id; /* NULL: everybody */
	const char *tag;      /* a metadata key to group by, or NULL; without '"' */
	int64_t since_ms, until_ms;
};

/* [{owner_id, owner, value?, sandboxes, cpu_s, mib_s, bytes_stored, ends:{reason:n}}], value only with a tag
 * (null: without that key). bytes_stored is what is kept now. */
int store_usage(struct store *s, const struct usage_query *query, json_t **ret);
/* Forgets numbers that are past USAGE_KEPT_DAYS, a bounded part at a time. */
int store_usage_sweep(struct store *s);

#endif
