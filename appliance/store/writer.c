/* One group of transactions to the disk: logs and spools first, each touched
 * file synced once, then the rows in one SQLite transaction, then the callbacks.
 * Writer thread only. */
#include "inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spool.h"

static void fail_disk(struct store_txn *t, int err, const char *what)
{
	if (err == -ENOSPC || err == -EDQUOT || err == -EFBIG)
		txn_fail(t, -ENOSPC, "The disk that holds %s is full: free some space and try again.",
			 t->store->dir);
	else
		txn_fail(t, err, "Writing %s in %s failed: %s.", what, t->store->dir, strerror(-err));
}

static void fail_log(struct store_txn *t, int err)
{
	if (err == -EBADMSG)
		txn_fail(t, err, "The lines do not follow the last one of their event log.");
	else if (err == -EMSGSIZE)
		txn_fail(t, err, "An event is longer than %d bytes.", XLOG_LINE_MAX);
	else if (err == -ESHUTDOWN)
		txn_fail(t, err, "The event log has ended: it takes no more lines.");
	else
		fail_disk(t, err, "an event log");
}

static void fail_sql(struct store_txn *t, int rc)
{
	int err = db_errno(rc), os = sqlite3_system_errno(t->store->db.conn);

	/* A quota or size limit is a full disk too, but SQLite calls it an I/O error, and at a
	 * COMMIT (before 3.41) leaves only errno to tell: batch_rows() cleared it. */
	if (os == 0)
		os = errno;
	if (err == -EIO && (os == ENOSPC || os == EDQUOT || os == EFBIG))
		err = -ENOSPC;
	if (err == -ENOSPC)
		fail_disk(t, err, "rows");
	else
		txn_fail(t, err ? err : -EIO, "The store did not take the rows: %s.",
			 sqlite3_errmsg(t->store->db.conn));
}

/* Takes the transaction's lines back out of its logs, last first. */
static void logs_back(struct store_txn *t)
{
	struct step *undo[64];
	unsigned count;

	/* Steps are linked forward only: walk them in slices from the end. */
	do {
		count = 0;
		for (struct step *step = t->first; step; step = step->next) {
			if (step->kind != STEP_LOG || !step->appended)
				continue;
			if (count == 64)
				memmove(undo, undo + 1, sizeof(undo) - sizeof(undo[0]));
			else
				count++;
			undo[count - 1] = step;
		}
		for (unsigned i = count; i-- > 0;) {
			xlog_cut(undo[i]->log, &undo[i]->before);
			undo[i]->appended = false;
		}
	} while (count > 0);
}

static int step_append(struct step *step)
{
	struct xlog_position after;
	int err;

	xlog_position(step->log, &step->before);
	err = xlog_append(step->log, step->bytes, step->len, step->last_seq, step->end);
	if (err)
		return err;
	xlog_position(step->log, &after);
	step->size_after = after.size;
	step->appended = true;
	return 0;
}

static void txn_files(struct store_txn *t, struct spool_batch *spools)
{
	for (struct step *step = t->first; step && !t->err; step = step->next) {
		int err = 0;

		if (step->kind == STEP_LOG)
			err = step_append(step);
		if (err)
			fail_log(t, err);
		else if (step->kind == STEP_SPOOL)
			err = spool_write(spools, step->execution_id, step->n, step->offset, step->bytes,
					  step->len);
		if (step->kind == STEP_ERASE)
			err = spool_erase(t->store->dir, step->execution_id);
		if (err && (step->kind == STEP_SPOOL || step->kind == STEP_ERASE))
			fail_disk(t, err, "an output");
	}
	if (t->err)
		logs_back(t);
}

/* Lines that went before these were taken back: these have no place any more. */
static void txn_check_logs(struct store_txn *t)
{
	struct xlog_position at;

	for (struct step *step = t->first; step && !t->err; step = step->next) {
		if (step->kind != STEP_LOG)
			continue;
		xlog_position(step->log, &at);
		if (at.size < step->size_after)
			txn_fail(t, -ECANCELED, "An earlier write to the same event log failed.");
	}
	if (t->err)
		logs_back(t);
}

/* From its first line to its end this transaction's: its row can hold it. */
static bool log_whole(const struct store_txn *t, const struct step *of)
{
	const struct step *step = t->first;
	size_t len;

	while (step->log != of->log)
		step = step->next;
	return step->before.size == 0 && of->end && xlog_small(of->log, &len);
}

static int log_sync(const struct store_txn *t, const struct step *step)
{
	const struct step *last = step;

	for (const struct step *next = step; next; next = next->next)
		if (next->log == step->log)
			last = next;
	return log_whole(t, last) ? 0 : xlog_sync(step->log);
}

static void batch_sync(struct store_txn *first, struct spool_batch *spools)
{
	int err = spool_sync(spools);

	for (struct store_txn *t = first; t && !err; t = t->next)
		for (struct step *step = t->first; step && !err && !t->err; step = step->next)
			if (step->kind == STEP_LOG)
				err = log_sync(t, step);
	if (!err)
		return;
	/* Which of the group's bytes are safe is not known: none of it counts. */
	for (struct store_txn *t = first; t; t = t->next)
		fail_disk(t, err, "what was queued");
}

static int value_bind(sqlite3_stmt *st, int at, const struct value *value)
{
	switch (value->kind) {
	case VALUE_INT:
		return sqlite3_bind_int64(st, at, value->number);
	case VALUE_TEXT:
		return sqlite3_bind_text64(st, at, value->bytes, value->len, SQLITE_STATIC, SQLITE_UTF8);
	case VALUE_BLOB:
		return sqlite3_bind_blob64(st, at, value->bytes, value->len, SQLITE_STATIC);
	case VALUE_NULL:
		break;
	}
	return sqlite3_bind_null(st, at);
}

static int step_run(struct db *db, const struct step *step)
{
	sqlite3_stmt *st = db_stmt(db, step->sql);
	int rc = SQLITE_OK;

	if (!st)
		return sqlite3_errcode(db->conn);
	for (unsigned i = 0; i < step->value_count && rc == SQLITE_OK; i++)
		rc = value_bind(st, (int)i + 1, &step->values[i]);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	sqlite3_reset(st);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* A short log goes where its execution is. */
static int log_row(struct db *db, const struct store_txn *t, const struct step *step)
{
	static const char sql[] = "UPDATE executions SET events = ? WHERE id = ?";
	struct step row = { .kind = STEP_ROW, .sql = sql, .value_count = 2 };
	const char *lines;
	size_t len;

	if (!step->end || !log_whole(t, step))
		return SQLITE_OK;
	lines = xlog_small(step->log, &len);
	row.values[0] = (struct value){ .kind = VALUE_TEXT, .bytes = lines, .len = len };
	row.values[1] = (struct value){ .kind = VALUE_TEXT,
					.bytes = xlog_id(step->log),
					.len = strlen(xlog_id(step->log)) };
	return step_run(db, &row);
}

/* A transaction that breaks a rule of the tables fails alone, the rest of its group goes on. */
static int txn_rows(struct store_txn *t)
{
	struct db *db = &t->store->db;
	int rc = db_exec(db, "SAVEPOINT txn");

	for (struct step *step = t->first; step && rc == SQLITE_OK; step = step->next)
		if (step->kind == STEP_ROW)
			rc = step_run(db, step);
	for (struct step *step = t->first; step && rc == SQLITE_OK; step = step->next)
		if (step->kind == STEP_LOG)
			rc = log_row(db, t, step);
	if (rc == SQLITE_OK)
		return db_exec(db, "RELEASE txn");
	fail_sql(t, rc);
	logs_back(t);
	if (sqlite3_get_autocommit(db->conn))
		return rc; /* SQLite gave up the whole group: disk full, I/O error */
	rc = db_exec(db, "ROLLBACK TO txn");
	return rc == SQLITE_OK ? db_exec(db, "RELEASE txn") : rc;
}

static void batch_rows(struct store *s, struct store_txn *first)
{
	bool any = false, hard = false;
	int rc;

	for (struct store_txn *t = first; t; t = t->next) {
		any |= t->has_rows && !t->err;
		hard |= !t->soft;
	}
	if (!any)
		return;
	errno = 0;
	rc = db_harden(&s->db, hard);
	if (rc == SQLITE_OK)
		rc = db_exec(&s->db, "BEGIN IMMEDIATE");
	for (struct store_txn *t = first; t && rc == SQLITE_OK; t = t->next) {
		if (!t->err)
			txn_check_logs(t);
		if (!t->err && t->has_rows)
			rc = txn_rows(t);
	}
	if (rc == SQLITE_OK)
		rc = db_exec(&s->db, "COMMIT");
	if (rc == SQLITE_OK)
		return;
	for (struct store_txn *t = first; t; t = t->next)
		fail_sql(t, rc);
	if (!sqlite3_get_autocommit(s->db.conn))
		db_exec(&s->db, "ROLLBACK");
}

static struct store_txn *reversed(struct store_txn *first)
{
	struct store_txn *back = NULL, *next;

	for (; first; first = next) {
		next = first->next;
		first->next = back;
		back = first;
	}
	return back;
}

/* What failed late takes its lines back; later transactions first, as they lie in the logs. */
static struct store_txn *batch_undo(struct store_txn *first)
{
	struct store_txn *back = reversed(first);

	for (struct store_txn *t = back; t; t = t->next)
		if (t->err)
			logs_back(t);
	return reversed(back);
}

static void logs_tell(const struct store_txn *t)
{
	for (const struct step *step = t->first; step; step = step->next) {
		if (step->kind != STEP_LOG)
			continue;
		if (!t->err)
			xlog_committed(step->log);
		else if (step->end)
			xlog_give_up(step->log, t->err);
	}
}

static void batch_answer(struct store *s, struct store_txn *first)
{
	struct store_txn *next;

	for (struct store_txn *t = first; t; t = next) {
		next = t->next;
		logs_tell(t);
		/* Off the queue before the callback, so that the callback's look at store_busy() is true. */
		pthread_mutex_lock(&s->lock);
		s->queued -= t->cost;
		pthread_mutex_unlock(&s->lock);
		if (t->done)
			t->done(t->err, t->err ? t->message : NULL, t->arg);
		txn_free(t);
	}
}

/* What /metrics shows; counted before the callbacks free the transactions. */
static void batch_count(struct store *s, const struct store_txn *first, int64_t took_us)
{
	static const unsigned bounds_ms[STORE_COMMIT_BUCKETS] = STORE_COMMIT_BOUNDS_MS;
	uint64_t spooled = 0, failed = 0, done = 0;
	unsigned i;

	for (const struct store_txn *t = first; t; t = t->next) {
		failed += t->err != 0;
		done += t->err == 0;
		for (const struct step *step = t->first; step && !t->err; step = step->next)
			spooled += step->kind == STEP_SPOOL ? step->len : 0;
	}
	pthread_mutex_lock(&s->lock);
	for (i = 0; i < STORE_COMMIT_BUCKETS; i++)
		s->figures.commit_le[i] += took_us <= (int64_t)bounds_ms[i] * 1000;
	s->figures.commits++;
	s->figures.commit_us += (uint64_t)took_us;
	s->figures.transactions += done;
	s->figures.failed += failed;
	s->figures.spooled_bytes += spooled;
	if (s->on_commit)
		s->on_commit(s->on_commit_arg);
	pthread_mutex_unlock(&s->lock);
}

int64_t monotonic_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

void batch_run(struct store *s, struct store_txn *first)
{
	int64_t began = monotonic_us();
	struct spool_batch spools;

	spool_batch_init(&spools, s->dir);
	for (struct store_txn *t = first; t; t = t->next)
		if (!t->err)
			txn_files(t, &spools);
	batch_sync(first, &spools);
	batch_rows(s, first);
	first = batch_undo(first);
	batch_count(s, first, monotonic_us() - began);
	batch_answer(s, first);
	/* Nobody waits for it. */
	db_checkpoint(&s->db);
}
