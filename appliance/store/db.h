/* One SQLite connection with its prepared statements; and the schema.
 *
 * A connection is used by one thread at a time. For this folder only.
 */
#ifndef CARREL_DB_H
#define CARREL_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "../fault.h"

enum {
	DB_STMTS_MAX = 64,     /* different statements in this folder, with room */
	DB_BUSY_MS = 5000,     /* how long another process (sqlite3, a backup) may hold the write lock */
	DB_CHECK_MS = 1000,    /* time that open() gives to looking for damage */
	DB_WAL_KEEP = 16 << 20, /* bytes of write-ahead log that stay on disk after a checkpoint */
	DB_WAL_PAGES = 1000     /* of the write-ahead log, which are worth a checkpoint: SQLite's own measure */
};

struct db {
	sqlite3 *conn;
	struct {
		const char *sql; /* static string: its address is the key */
		sqlite3_stmt *st;
	} stmts[DB_STMTS_MAX];
	unsigned stmt_count;
	bool soft;     /* see db_harden() */
	int wal_pages; /* after the last commit */
};

/* writer: creates the file, checks it and brings its schema up to date. */
int db_open(struct db *db, const char *path, bool writer, struct fault *f);
void db_close(struct db *db);
/* A statement ready to be bound, owned by db; NULL: see sqlite3_errmsg(). sql must be a static string. */
sqlite3_stmt *db_stmt(struct db *db, const char *sql);
/* Runs a statement without parameters or rows. A SQLite result code. */
int db_exec(struct db *db, const char *sql);
/* Whether commits wait for the disk (as at first), or leave that to the next one that does. A result code. */
int db_harden(struct db *db, bool hard);
/* Writer, between transactions: takes the write-ahead log into the file when that is due. */
void db_checkpoint(struct db *db);
/* Negative errno for a SQLite result code (0 for success, row and done). */
int db_errno(int rc);

#endif
