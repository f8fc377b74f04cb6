#include "db.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "schema.h"

int db_errno(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CONSTRAINT:
	case SQLITE_MISMATCH:
	case SQLITE_TOOBIG:
		return -EINVAL;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_READONLY:
		return -EACCES;
	default:
		return -EIO;
	}
}

sqlite3_stmt *db_stmt(struct db *db, const char *sql)
{
	sqlite3_stmt *st;

	for (unsigned i = 0; i < db->stmt_count; i++) {
		if (db->stmts[i].sql != sql)
			continue;
		sqlite3_reset(db->stmts[i].st);
		sqlite3_clear_bindings(db->stmts[i].st);
		return db->stmts[i].st;
	}
	if (db->stmt_count == DB_STMTS_MAX) {
		sqlite3_finalize(db->stmts[--db->stmt_count].st);
	}
	if (sqlite3_prepare_v3(db->conn, sql, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL) != SQLITE_OK)
		return NULL;
	db->stmts[db->stmt_count].sql = sql;
	db->stmts[db->stmt_count++].st = st;
	return st;
}

int db_exec(struct db *db, const char *sql)
{
	return sqlite3_exec(db->conn, sql, NULL, NULL, NULL);
}

int db_harden(struct db *db, bool hard)
{
	int rc;

	if (db->soft == !hard)
		return SQLITE_OK;
	rc = db_exec(db, hard ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
	if (rc == SQLITE_OK)
		db->soft = !hard;
	return rc;
}

static int on_wal(void *arg, sqlite3 *conn, const char *name, int pages)
{
	struct db *db = arg;

	(void)conn, (void)name;
	db->wal_pages = pages;
	return SQLITE_OK;
}

void db_checkpoint(struct db *db)
{
	if (db->wal_pages < DB_WAL_PAGES)
		return;
	/* What a reader or a full disk keeps from it is tried again with the next pages. */
	sqlite3_wal_checkpoint_v2(db->conn, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	db->wal_pages = 0;
}

void db_close(struct db *db)
{
	for (unsigned i = 0; i < db->stmt_count; i++)
		sqlite3_finalize(db->stmts[i].st);
	sqlite3_close(db->conn);
	*db = (struct db){ 0 };
}

static int open_failed(struct db *db, const char *path, int rc, const char *detail, struct fault *f)
{
	int err = db_errno(rc), os;

	switch (err) {
	case -EUCLEAN:
		return fault_set(f, EUCLEAN, 500, "store_damaged",
				 "The store %s is damaged (%s): move it away, or put a good copy in its "
				 "place, and start again.",
				 path, detail);
	case -ENOSPC:
		return fault_set(f, ENOSPC, 507, "disk_full",
				 "The disk that holds the store %s is full: free some space and start again.",
				 path);
	case -EBUSY:
		return fault_set(f, EBUSY, 500, "store_busy",
				 "Another program keeps the store %s locked: end it and start again.", path);
	default:
		os = sqlite3_system_errno(db->conn);
		return fault_set(f, err ? -err : EIO, 500, "store_unusable",
				 "The store %s cannot be opened: %s%s%s.", path, detail, os ? ": " : "",
				 os ? strerror(os) : "");
	}
}

static int past_deadline(void *arg)
{
	const struct timespec *until = arg;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec > until->tv_nsec);
}

/* Looks for damage for a bounded time: a store too large to be read through is not refused. */
static int db_check(struct db *db, const char *path, struct fault *f)
{
	struct timespec until;
	sqlite3_stmt *st = NULL;
	int rc, err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += DB_CHECK_MS / 1000;
	sqlite3_progress_handler(db->conn, 10000, past_deadline, &until);
	rc = sqlite3_prepare_v2(db->conn, "PRAGMA quick_check(1)", -1, &st, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(st, 0), "ok") != 0)
		err = open_failed(db, path, SQLITE_CORRUPT, (const char *)sqlite3_column_text(st, 0), f);
	else if (rc != SQLITE_ROW && rc != SQLITE_INTERRUPT)
		err = open_failed(db, path, rc, sqlite3_errmsg(db->conn), f);
	sqlite3_finalize(st);
	sqlite3_progress_handler(db->conn, 0, NULL, NULL);
	return err;
}

static int db_version(struct db *db, int *ret)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->conn, "PRAGMA user_version", -1, &st, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int(st, 0);
	sqlite3_finalize(st);
	return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int db_step_up(struct db *db, int from)
{
	char version[64];
	int rc = db_exec(db, "BEGIN IMMEDIATE");

	if (rc == SQLITE_OK)
		rc = db_exec(db, schema_steps[from]);
	snprintf(version, sizeof(version), "PRAGMA user_version = %d", from + 1);
	if (rc == SQLITE_OK)
		rc = db_exec(db, version);
	if (rc == SQLITE_OK)
		rc = db_exec(db, "COMMIT");
	return rc;
}

static int db_migrate(struct db *db, const char *path, struct fault *f)
{
	int version = 0, rc = db_version(db, &version);

	if (rc != SQLITE_OK)
		return open_failed(db, path, rc, sqlite3_errmsg(db->conn), f);
	if (version > schema_version)
		return fault_set(f, EPROTO, 500, "store_newer",
				 "The store %s has version %d and this Carrel knows versions up to %d: start "
				 "the newer Carrel that wrote it, or use another STATE.",
				 path, version, schema_version);
	for (; version < schema_version; version++) {
		rc = db_step_up(db, version);
		if (rc != SQLITE_OK)
			return open_failed(db, path, rc, sqlite3_errmsg(db->conn), f);
	}
	return 0;
}

static int db_pragmas(struct db *db, bool writer)
{
	static const char writing[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
				      "PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 16777216;"
				      /* What is erased is overwritten, not only forgotten. */
				      "PRAGMA secure_delete = ON;";

	_Static_assert(DB_WAL_KEEP == 16777216, "journal_size_limit above");
	sqlite3_busy_timeout(db->conn, DB_BUSY_MS);
	/* In place of SQLite's own checkpoints, for which a commit's caller would wait. */
	if (writer)
		sqlite3_wal_hook(db->conn, on_wal, db);
	return db_exec(db, writer ? writing : "PRAGMA query_only = ON");
}

int db_open(struct db *db, const char *path, bool writer, struct fault *f)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (writer ? SQLITE_OPEN_CREATE : 0);
	int rc, err = 0;

	*db = (struct db){ 0 };
	rc = sqlite3_open_v2(path, &db->conn, flags, NULL);
	if (rc == SQLITE_OK)
		rc = db_pragmas(db, writer);
	if (rc != SQLITE_OK)
		err = open_failed(db, path, rc, sqlite3_errmsg(db->conn), f);
	if (!err && writer)
		err = db_check(db, path, f);
	if (!err && writer)
		err = db_migrate(db, path, f);
	if (err)
		db_close(db);
	return err;
}
