#include "sweep.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sweep_inner.h"
#include "usage.h"

struct sweep {
	struct store *store;
	struct sweep_settings settings;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stopping;
};

/* Whose history, and how it is bounded. */
struct bound {
	const char *owner_id; /* NULL: of everybody without a bound of his own */
	int64_t bytes;        /* as much is to go */
};

/* --- too old --- */

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

/* The oldest that are past their owner's time. */
static int executions_old(struct store *s, const struct sweep_settings *settings, struct batch *ret)
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

static int audit_old(struct store *s, const struct sweep_settings *settings, int64_t *ret, unsigned *ret_count)
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

/* Sandboxes that ended so long ago, or before all history that is left. */
static int sandboxes_old(struct store *s, const struct sweep_settings *settings, char (*ret)[STORE_ID_MAX],
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
	while ((got = query_step(&q)) == 1)
		snprintf(ret[(*ret_count)++], STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(q.st, 0));
	query_end(&q);
	return got;
}

static int old_erase(struct store *s, const struct sweep_settings *settings)
{
	char ids[SWEEP_ROWS][STORE_ID_MAX];
	int64_t seqs[SWEEP_ROWS];
	unsigned count = 0;
	struct batch b;
	int err;

	do {
		err = executions_old(s, settings, &b);
		if (!err && b.count > 0)
			err = sweep_erase(s, &b);
	} while (!err && b.count > 0 && !s->sweep_stops);
	do {
		err = err ? err : audit_old(s, settings, seqs, &count);
		if (!err && count > 0)
			err = sweep_audit(s, seqs, count);
	} while (!err && count > 0 && !s->sweep_stops);
	do {
		err = err ? err : sandboxes_old(s, settings, ids, &count);
		if (!err && count > 0)
			err = sweep_sandboxes(s, ids, count);
	} while (!err && count > 0 && !s->sweep_stops);
	return err;
}

/* --- too much --- */

static int executions_first(struct store *s, const struct bound *bound, struct batch *ret)
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

/* Rows of the audit that are older than what goes of executions; any, where nothing else is left. */
static int audit_first(struct store *s, int64_t until_ms, int64_t bytes, int64_t *ret, unsigned *ret_count)
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

/* Sandboxes that ended before that and have no execution left. */
static int sandboxes_first(struct store *s, int64_t until_ms, struct bound *bound, unsigned *ret_count)
{
	static const char sql[] = "SELECT id, length(metadata) FROM sandboxes b WHERE state = 'ended' AND ended_ms <= ?1"
				  " AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.sandbox_id = b.id)"
				  " ORDER BY seq LIMIT ?2";
	char ids[SWEEP_ROWS][STORE_ID_MAX];
	int64_t bytes = 0;
	struct query q;
	int got = query_begin(&q, s, sql);

	*ret_count = 0;
	if (got)
		return got;
	query_int(&q, until_ms);
	query_int(&q, SWEEP_ROWS);
	while (bytes < bound->bytes && (got = query_step(&q)) == 1) {
		snprintf(ids[(*ret_count)++], STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(q.st, 0));
		bytes += SANDBOX_COST + sqlite3_column_int64(q.st, 1);
	}
	query_end(&q);
	if (got < 0 || *ret_count == 0)
		return got < 0 ? got : 0;
	bound->bytes -= bytes;
	return sweep_sandboxes(s, ids, *ret_count);
}

/* What is older than the executions that just went; all there is, where none are left. */
static int rest_first(struct store *s, int64_t until_ms, struct bound *bound, unsigned *ret_count)
{
	int64_t seqs[SWEEP_ROWS];
	unsigned sandboxes;
	int err = sandboxes_first(s, until_ms, bound, &sandboxes);

	*ret_count = 0;
	if (!err && bound->bytes > 0)
		err = audit_first(s, until_ms, bound->bytes, seqs, ret_count);
	if (!err && *ret_count > 0)
		err = sweep_audit(s, seqs, *ret_count);
	bound->bytes -= (int64_t)*ret_count * AUDIT_COST;
	*ret_count += sandboxes;
	return err;
}

static int much_erase(struct store *s, struct bound *bound)
{
	unsigned count = 0;
	struct batch b;
	int err = 0;

	while (!err && bound->bytes > 0 && !s->sweep_stops) {
		err = executions_first(s, bound, &b);
		if (!err && b.count > 0)
			err = sweep_erase(s, &b);
		bound->bytes -= b.bytes;
		if (!err && !bound->owner_id)
			err = rest_first(s, b.count > 0 ? b.last_queued_ms : INT64_MAX, bound, &count);
		if (b.count == 0 && count == 0)
			break;
	}
	return err;
}

/* The next owner with a bound of its own and more than that; -ENOENT: there is none. */
static int owner_over(struct store *s, char owner_id[STORE_ID_MAX], int64_t *ret_over)
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

static int over_erase(struct store *s, const struct sweep_settings *settings)
{
	char owner_id[STORE_ID_MAX] = "";
	struct bound bound = { .owner_id = owner_id };
	int64_t total = 0;
	int err;

	while ((err = owner_over(s, owner_id, &bound.bytes)) == 0)
		if ((err = much_erase(s, &bound)) < 0)
			break;
	if (err == -ENOENT)
		err = sweep_total(s, &total);
	bound = (struct bound){ .bytes = total - ((int64_t)settings->mb << 20) };
	return err || bound.bytes <= 0 ? err : much_erase(s, &bound);
}

int sweep_once(struct store *s, const struct sweep_settings *settings)
{
	int err = sweep_leftovers(s, 0);

	if (!err)
		err = sweep_count(s);
	if (!err)
		err = old_erase(s, settings);
	if (!err)
		err = store_usage_sweep(s);
	return err ? err : over_erase(s, settings);
}

/* --- the thread --- */

/* False: it is to stop. */
static bool sweep_wait(struct sweep *w)
{
	struct timespec until;
	bool stopping;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += w->settings.every_s;
	pthread_mutex_lock(&w->lock);
	while (!w->stopping && pthread_cond_timedwait(&w->wake, &w->lock, &until) != ETIMEDOUT)
		;
	stopping = w->stopping;
	pthread_mutex_unlock(&w->lock);
	return !stopping;
}

static void *sweep_main(void *arg)
{
	struct sweep *w = arg;
	int err = sweep_leftovers(w->store, now_ms() - 1000), before = 0;

	do {
		if (!err)
			err = sweep_once(w->store, &w->settings);
		if (err && err != before)
			fprintf(stderr, "carreld: history could not be swept: %s; it is tried again.\n", strerror(-err));
		before = err;
		err = 0;
	} while (sweep_wait(w));
	return NULL;
}

int sweep_start(struct store *s, const struct sweep_settings *settings, struct sweep **ret)
{
	struct sweep *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	*w = (struct sweep){ .store = s, .settings = *settings };
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	err = pthread_create(&w->thread, NULL, sweep_main, w);
	if (err) {
		free(w);
		return -err;
	}
	*ret = w;
	return 0;
}

void sweep_stop(struct sweep *w)
{
	if (!w)
		return;
	w->store->sweep_stops = true;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wake);
	w->store->sweep_stops = false;
	free(w);
}
