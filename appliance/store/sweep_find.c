/* What is to go: questions only, by a reader's connection. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sweep_inner.h"

/* Nothing queued since then can be too old for any owner: rows are in the order of time, so that a look ends there. */
static int64_t newest_old(struct store *s, const struct sweep_settings *settings)
{
	static const char sql[] = "SELECT min(json_extract(quota, '$.history_days')) FROM owners";
	int64_t days = settings->days;
	struct query q;

	if (query_begin(&q, s, sql) < 0)
		return 0;
	if (query_step(&q) == 1 && sqlite3_column_type(q.st, 0) == SQLITE_INTEGER &&
	    sqlite3_column_int64(q.st, 0) < days)
		days = sqlite3_column_int64(q.st, 0);
	query_end(&q);
	return now_ms() - days * DAY_MS;
}

static void batch_add(struct batch *b, sqlite3_stmt *st)
{
	snprintf(b->each[b->count].id, STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(st, 0));
	snprintf(b->each[b->count].owner_id, STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(st, 1));
	b->bytes += sqlite3_column_int64(st, 2);
	b->count++;
}

int find_executions_old(struct store *s, const struct sweep_settings *settings, struct batch *ret)
{
	static const char sql[] =
		"SELECT e.id, b.owner_id, e.stored, e.ended_ms, e.queued_ms,"
		"  coalesce(json_extract(o.quota, '$.history_days'), ?1)"
		" FROM executions e JOIN sandboxes b ON b.id = e.sandbox_id JOIN owners o ON o.id = b.owner_id"
		" WHERE e.stored IS NOT NULL ORDER BY e.seq";
	enum { ENDED = 3, QUEUED, DAYS };
	int64_t until = newest_old(s, settings), now = now_ms();
	struct query q;
	int got = query_begin(&q, s, sql);

	*ret = (struct batch){ 0 };
	if (got)
		return got;
	query_int(&q, settings->days);
	while (ret->count < SWEEP_EXECUTIONS && ret->bytes < SWEEP_BYTES && (got = query_step(&q)) == 1) {
		if (sqlite3_column_int64(q.st, QUEUED) > until)
			break;
		if (sqlite3_column_int64(q.st, ENDED) <= now - sqlite3_column_int64(q.st, DAYS) * DAY_MS)
			batch_add(ret, q.st);
	}
	query_end(&q);
	return got < 0 ? got : 0;
}

int find_audit_old(struct store *s, const struct sweep_settings *settings, int64_t *ret, unsigned *ret_count)
{
	static const char sql[] = "SELECT a.seq, a.at_ms, coalesce(json_extract(o.quota, '$.history_days'), ?1)"
				  " FROM audit a LEFT JOIN owners o ON o.id = a.owner_id ORDER BY a.seq";
	int64_t until = newest_old(s, settings), now = now_ms();
	struct query q;
	int got = query_begin(&q, s, sql);

	*ret_count = 0;
	if (got)
		return got;
	query_int(&q, settings->days);
	while (*ret_count < SWEEP_ROWS && (got = query_step(&q)) == 1) {
		int64_t at = sqlite3_column_int64(q.st, 1);

		if (at > until)
			break;
		if (at <= now - sqlite3_column_int64(q.st, 2) * DAY_MS)
			ret[(*ret_count)++] = sqlite3_column_int64(q.st, 0);
	}
	query_end(&q);
	return got < 0 ? got : 0;
}

int find_ids(struct query *q, char (*ret)[STORE_ID_MAX], unsigned *ret_count)
{
	int got;

	while ((got = query_step(q)) == 1)
		snprintf(ret[(*ret_count)++], STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(q->st, 0));
	query_end(q);
	return got;
}

int find_sandboxes_old(struct store *s, const struct sweep_settings *settings, char (*ret)[STORE_ID_MAX],
			 unsigned *ret_count)
{
	static const char sql[] =
		"SELECT b.id, b.created_ms FROM sandboxes b JOIN owners o ON o.id = b.owner_id"
		" WHERE b.state = 'ended'"
		"  AND b.ended_ms <= ?1 - coalesce(json_extract(o.quota, '$.history_days'), ?2) * 86400000"
		"  AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.sandbox_id = b.id) ORDER BY b.seq LIMIT ?3";
	struct query q;
	int got = query_begin(&q, s, sql);

	*ret_count = 0;
	if (got)
		return got;
	query_int(&q, now_ms());
	query_int(&q, settings->days);
	query_int(&q, SWEEP_ROWS);
	return find_ids(&q, ret, ret_count);
}

int find_executions_first(struct store *s, const struct bound *bound, struct batch *ret)
{
	static const char everybody[] =
		"SELECT e.id, b.owner_id, e.stored, e.queued_ms FROM executions e"
		" JOIN sandboxes b ON b.id = e.sandbox_id JOIN owners o ON o.id = b.owner_id"
		" WHERE e.stored IS NOT NULL AND json_extract(o.quota, '$.history_mb') IS NULL ORDER BY e.seq";
	static const char one[] =
		"SELECT e.id, b.owner_id, e.stored, e.queued_ms FROM executions e"
		" JOIN sandboxes b ON b.id = e.sandbox_id"
		" WHERE e.stored IS NOT NULL AND b.owner_id = ?1 ORDER BY e.seq";
	struct query q;
	int got = query_begin(&q, s, bound->owner_id ? one : everybody);

	*ret = (struct batch){ 0 };
	if (got)
		return got;
	if (bound->owner_id)
		query_text(&q, bound->owner_id);
	while (ret->count < SWEEP_EXECUTIONS && ret->bytes < SWEEP_BYTES && ret->bytes < bound->bytes &&
	       (got = query_step(&q)) == 1) {
		batch_add(ret, q.st);
		ret->last_queued_ms = sqlite3_column_int64(q.st, 3);
	}
	query_end(&q);
	return got < 0 ? got : 0;
}

int find_audit_first(struct store *s, int64_t until_ms, int64_t bytes, int64_t *ret, unsigned *ret_count)
{
	static const char sql[] = "SELECT seq FROM audit WHERE at_ms <= ?1 ORDER BY seq LIMIT ?2";
	struct query q;
	int got = query_begin(&q, s, sql);

	*ret_count = 0;
	if (got)
		return got;
	query_int(&q, until_ms);
	query_int(&q, bytes / AUDIT_COST + 1 < SWEEP_ROWS ? bytes / AUDIT_COST + 1 : SWEEP_ROWS);
	while ((got = query_step(&q)) == 1)
		ret[(*ret_count)++] = sqlite3_column_int64(q.st, 0);
	query_end(&q);
	return got;
}

int find_sandboxes_first(struct store *s, int64_t until_ms, int64_t bytes, char (*ret)[STORE_ID_MAX],
			 unsigned *ret_count, int64_t *ret_bytes)
{
	static const char sql[] = "SELECT id, length(metadata) FROM sandboxes b WHERE state = 'ended' AND ended_ms <= ?1"
				  " AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.sandbox_id = b.id)"
				  " ORDER BY seq LIMIT ?2";
	struct query q;
	int got = query_begin(&q, s, sql);

	*ret_count = 0;
	*ret_bytes = 0;
	if (got)
		return got;
	query_int(&q, until_ms);
	query_int(&q, SWEEP_ROWS);
	while (*ret_bytes < bytes && (got = query_step(&q)) == 1) {
		snprintf(ret[(*ret_count)++], STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(q.st, 0));
		*ret_bytes += SANDBOX_COST + sqlite3_column_int64(q.st, 1);
	}
	query_end(&q);
	return got < 0 ? got : 0;
}

int find_owner_over(struct store *s, char owner_id[STORE_ID_MAX], int64_t *ret_over)
{
	static const char sql[] =
		"SELECT h.owner_id, h.bytes - json_extract(o.quota, '$.history_mb') * 1048576 AS over"
		" FROM history h JOIN owners o ON o.id = h.owner_id WHERE over > 0 AND h.owner_id > ?1"
		" ORDER BY h.owner_id LIMIT 1";
	struct query q;
	int got = query_begin(&q, s, sql);

	if (got)
		return got;
	query_text(&q, owner_id);
	got = query_step(&q);
	if (got == 1) {
		snprintf(owner_id, STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(q.st, 0));
		*ret_over = sqlite3_column_int64(q.st, 1);
	}
	query_end(&q);
	return got == 1 ? 0 : got < 0 ? got : -ENOENT;
}
