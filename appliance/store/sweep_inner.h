/* What the files of the sweep share. */
#ifndef CARREL_STORE_SWEEP_INNER_H
#define CARREL_STORE_SWEEP_INNER_H

#include "reader.h"
#include "sweep.h"

enum {
	/* Of one transaction, which a cell's commit may have to wait for. */
	SWEEP_EXECUTIONS = 32,
	SWEEP_BYTES = 4 << 20,
	SWEEP_ROWS = 256,
	/* What a row costs beside its texts, its indexes included; measured, rounded up. */
	EXECUTION_COST = 512,
	SANDBOX_COST = 1024,
	AUDIT_COST = 400,
};

/* Executions that are to go together. */
struct batch {
	unsigned count;
	int64_t bytes;
	int64_t last_queued_ms;
	struct {
		char id[STORE_ID_MAX], owner_id[STORE_ID_MAX];
	} each[SWEEP_EXECUTIONS];
};

/* Whose history is too much. */
struct bound {
	const char *owner_id; /* NULL: of everybody without a bound of his own */
	int64_t bytes;        /* as much is to go */
};

/* sweep_find.c: what is to go, oldest first, at most a batch or SWEEP_ROWS. 0 or a negative errno. */
/* Past their owner's time. */
int find_executions_old(struct store *s, const struct sweep_settings *settings, struct batch *ret);
int find_audit_old(struct store *s, const struct sweep_settings *settings, int64_t *ret, unsigned *ret_count);
int find_sandboxes_old(struct store *s, const struct sweep_settings *settings, char (*ret)[STORE_ID_MAX],
		       unsigned *ret_count);
/* The next owner, by id, with more than its own bound; -ENOENT: there is none. */
int find_owner_over(struct store *s, char owner_id[STORE_ID_MAX], int64_t *ret_over);
/* The first there are, up to so many bytes; of audit and sandboxes only what is older than until_ms. */
int find_executions_first(struct store *s, const struct bound *bound, struct batch *ret);
int find_audit_first(struct store *s, int64_t until_ms, int64_t bytes, int64_t *ret, unsigned *ret_count);
int find_sandboxes_first(struct store *s, int64_t until_ms, int64_t bytes, char (*ret)[STORE_ID_MAX],
			 unsigned *ret_count, int64_t *ret_bytes);

/* The first column of all rows that there are, and the question's end. */
int find_ids(struct query *q, char (*ret)[STORE_ID_MAX], unsigned *ret_count);

/* sweep_count.c */
/* Counts what is over and was not counted yet. */
int sweep_count(struct store *s);
/* Bytes of history of those owners that have no bound of their own, everything included. */
int sweep_total(struct store *s, int64_t *ret);

/* sweep_erase.c */
/* Spools whose rows are gone, and such as no row ever named when older than before_ms (0: none of these). */
int sweep_leftovers(struct store *s, int64_t before_ms);
int sweep_erase(struct store *s, const struct batch *b);
/* Rows of the audit up to and with that number, of those that the list names. */
int sweep_audit(struct store *s, const int64_t *seqs, unsigned count);
int sweep_sandboxes(struct store *s, char (*ids)[STORE_ID_MAX], unsigned count);

#endif
