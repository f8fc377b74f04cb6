#include "audit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

static _Thread_local char asker[STORE_ID_MAX];

void audit_asker_set(const char *key_id)
{
	snprintf(asker, sizeof(asker), "%s", key_id ? key_id : "");
}

const char *audit_asker(void)
{
	return asker;
}

void store_txn_audit_by(struct store_txn *t, const char *by, const char *owner_id, const char *sandbox_id,
			const char *action, const char *result, json_t *detail)
{
	static const char sql[] = "INSERT INTO audit (at_ms, owner_id, key_id, sandbox_id, action, result, detail)"
				  " VALUES (?, ?, ?, ?, ?, ?, ?)";
	struct step *step = txn_row(t, sql);

	step_int(step, now_ms());
	step_text(t, step, owner_id);
	step_text(t, step, by && *by ? by : NULL);
	step_text(t, step, sandbox_id);
	step_text(t, step, action);
	step_text(t, step, result);
	step_json(t, step, detail, NULL);
}

void store_txn_audit(struct store_txn *t, const char *owner_id, const char *sandbox_id, const char *action,
		     json_t *detail)
{
	store_txn_audit_by(t, asker, owner_id, sandbox_id, action, "ok", detail);
}

/* The first row that is as new as that, by halving: rows are in the order of time, or nearly so where the clock
 * was set back, which the query itself looks after. */
static int64_t row_since(struct query *q, int64_t ms)
{
	/* A clock that was set back by more than this hides rows of before from a query by time. */
	enum { SLACK_MS = 3600 * 1000 };
	int64_t low = 0, high = INT64_MAX / 2;

	while (low < high) {
		int64_t middle = low + (high - low) / 2;

		sqlite3_reset(q->st);
		sqlite3_bind_int64(q->st, 1, middle);
		if (sqlite3_step(q->st) == SQLITE_ROW && sqlite3_column_int64(q->st, 0) < ms - SLACK_MS)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int first_row(struct store *s, const struct audit_query *query, int64_t *ret)
{
	static const char sql[] = "SELECT at_ms FROM audit WHERE seq >= ? ORDER BY seq LIMIT 1";
	struct query q;
	int64_t first;
	int err;

	*ret = query->after;
	if (query->since_ms <= 0)
		return 0;
	err = query_begin(&q, s, sql);
	if (err)
		return err;
	first = row_since(&q, query->since_ms) - 1;
	query_end(&q);
	if (first > *ret)
		*ret = first;
	return 0;
}

static int lines_write(struct query *q, FILE *out)
{
	json_t *row;
	int got;

	while ((got = query_step(q)) == 1) {
		got = query_row(q, &row);
		if (got)
			return got;
		/* What a client named a file may be any text: a terminal gets ASCII. */
		json_dumpf(row, out, JSON_COMPACT | JSON_ENSURE_ASCII);
		fputc('\n', out);
		json_decref(row);
	}
	return got;
}

int store_audit_lines(struct store *s, const struct audit_query *query, char **ret, size_t *ret_len)
{
	static const char sql[] =
		AUDIT_SELECT
		" WHERE seq > ?1 AND (?2 IS NULL OR owner_id = ?2) AND (?3 IS NULL OR sandbox_id = ?3)"
		"  AND at_ms >= ?4 AND at_ms < ?5 ORDER BY seq LIMIT ?6";
	/* The same by the owner's index, which the general form cannot use. */
	static const char owners[] =
		AUDIT_SELECT
		" WHERE seq > ?1 AND owner_id = ?2 AND (?3 IS NULL OR sandbox_id = ?3)"
		"  AND at_ms >= ?4 AND at_ms < ?5 ORDER BY seq LIMIT ?6";
	struct query q;
	int64_t after;
	FILE *out;
	int err = first_row(s, query, &after);

	if (!err)
		err = query_begin(&q, s, query->owner_id ? owners : sql);
	if (err)
		return err;
	query_int(&q, after);
	query_text(&q, query->owner_id);
	query_text(&q, query->sandbox_id);
	query_int(&q, query->since_ms);
	query_int(&q, query->until_ms > 0 ? query->until_ms : INT64_MAX);
	query_int(&q, query->limit);
	out = open_memstream(ret, ret_len);
	err = out ? lines_write(&q, out) : -ENOMEM;
	query_end(&q);
	if (out && fclose(out) != 0 && !err)
		err = -ENOMEM;
	if (out && err)
		free(*ret);
	return err;
}
