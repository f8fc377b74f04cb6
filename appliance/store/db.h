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
	DB_STMTS_MAX = 32,     /* different statements in this folder, with room */
	DB_BUSY_MS = 5000,     /* how long another process (sqlite3, a backup) may hold the write lock */
	DB_CHECK_MS = 1000,    /* time that open() gives to looking for damage */
	DB_WAL_KEEP = 16 << 20 /* bytes of write-ahead log that stay on disk after a checkpoint */
};

struct db {
	sqlite3 *conn;
	struct {
		const char *sql; /* static string: its address is the key */
		sqlite3_stmt *st;
	} stmts[DB_STMTS_MAX];
	unsigned stmt_count;
};

/* writer: creates the file, checks it and brings its schema up to date. */
int db_open(struct db *db, const char *path, bool writer, struct fault *f);
void db_close(struct db *db);
/* A statement ready to be bound, owned by db; NULL: see sqlite3_errmsg(). sql must be a static string. */
sqlite3_stmt *db_stmt(struct db *db, const char *sql);
/* Runs a statement without parameters or rows. A SQLite result code. */
int db_exec(struct db *db, const char *sql);
/* Negative errno for a SQLite result code (0 for success, row and done). */
int db_errno(int rc);

#endif
