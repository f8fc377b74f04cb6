/* What history costs. Read here, so that the writer gets a number alone. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sweep_inner.h"

struct counted {
	char id[STORE_ID_MAX], owner_id[STORE_ID_MAX];
	int64_t bytes;
};

static int uncounted(struct store *s, struct counted *ret, unsigned *ret_count)
{
	static const char sql[] =
		"SELECT e.id, b.owner_id, ?1 + coalesce(length(e.code), 0) + coalesce(length(e.asked), 0)"
		"  + coalesce(length(e.events), e.log_bytes)"
		"  + (SELECT coalesce(sum(length(o.head) + length(o.tail) + coalesce(length(o.data), 0) + o.spooled), 0)"
		"     FROM outputs o WHERE o.execution_id = e.id)"
		" FROM executions e JOIN sandboxes b ON b.id = e.sandbox_id"
		" WHERE e.stored IS NULL AND e.status NOT IN ('queued', 'running') ORDER BY e.seq LIMIT ?2";
	struct query q;
	int got = query_begin(&q, s, sql);

	*ret_count = 0;
	if (got)
		return got;
	query_int(&q, EXECUTION_COST);
	query_int(&q, SWEEP_ROWS);
	while ((got = query_step(&q)) == 1) {
		struct counted *c = &ret[(*ret_count)++];

		snprintf(c->id, sizeof(c->id), "%s", (const char *)sqlite3_column_text(q.st, 0));
		snprintf(c->owner_id, sizeof(c->owner_id), "%s", (const char *)sqlite3_column_text(q.st, 1));
		c->bytes = sqlite3_column_int64(q.st, 2);
	}
	query_end(&q);
	return got;
}

static int note(struct store *s, const struct counted *counted, unsigned count)
{
	static const char row[] = "UPDATE executions SET stored = ? WHERE id = ? AND stored IS NULL";
	/* Only where that row was there to be counted. */
	static const char sum[] = "INSERT INTO history (owner_id, bytes) SELECT ?, ? WHERE changes() = 1"
				  " ON CONFLICT (owner_id) DO UPDATE SET bytes = bytes + excluded.bytes";
	struct store_txn *t = store_txn_new(s);
	struct step *step;
	struct fault f;

	store_txn_soft(t);
	for (unsigned i = 0; i < count; i++) {
		step = txn_row(t, row);
		step_int(step, counted[i].bytes);
		step_text(t, step, counted[i].id);
		step = txn_row(t, sum);
		step_text(t, step, counted[i].owner_id);
		step_int(step, counted[i].bytes);
	}
	return store_txn_wait(t, &f);
}

int sweep_count(struct store *s)
{
	struct counted counted[SWEEP_ROWS];
	unsigned count;
	int err;

	do {
		err = uncounted(s, counted, &count);
		if (!err && count > 0)
			err = note(s, counted, count);
	} while (!err && count == SWEEP_ROWS && !s->sweep_stops);
	return err;
}

int sweep_total(struct store *s, int64_t *ret)
{
	static const char sql[] =
		"SELECT (SELECT coalesce(sum(h.bytes), 0) FROM history h LEFT JOIN owners o ON o.id = h.owner_id"
		"    WHERE json_extract(o.quota, '$.history_mb') IS NULL)"
		"  + (SELECT coalesce(sum(length(metadata)), 0) + count(*) * ?1 FROM sandboxes WHERE state = 'ended')"
		"  + (SELECT coalesce(max(seq) - min(seq) + 1, 0) * ?2 FROM audit)";
	struct query q;
	int got = query_begin(&q, s, sql);

	if (got)
		return got;
	query_int(&q, SANDBOX_COST);
	query_int(&q, AUDIT_COST);
	got = query_step(&q);
	if (got == 1)
		*ret = sqlite3_column_int64(q.st, 0);
	query_end(&q);
	return got == 1 ? 0 : got < 0 ? got : -EUCLEAN;
}
