/* Asking the store: a connection from the pool for the time of one question,
 * and rows as JSON. For this folder only.
 *
 * A row becomes an object by its column names. A suffix says how:
 *   "name"       text or number, null where NULL
 *   "name:opt"   the same, left out where NULL
 *   "name:json"  parsed; left out where NULL
 *   "name:bool"  0 or 1
 *   "name:skip"  not shown (cursors)
 */
#ifndef CARREL_READER_H
#define CARREL_READER_H

#include "inner.h"

enum { QUERY_PARAMS_MAX = 8 };

struct query {
	struct store *store;
	struct db *db;
	sqlite3_stmt *st;
	int at; /* parameters bound */
};

/* Takes a connection and prepares sql (a static string). 0 or a negative errno; after 0 query_end() is due. */
int query_begin(struct query *q, struct store *s, const char *sql);
void query_text(struct query *q, const char *text); /* NULL binds NULL; not copied */
void query_int(struct query *q, int64_t number);
void query_blob(struct query *q, const void *bytes, size_t len);
/* 1: a row; 0: no more; else a negative errno. */
int query_step(struct query *q);
/* The current row. 0 or -ENOMEM. */
int query_row(struct query *q, json_t **ret);
/* The first row alone; -ENOENT: there is none. */
int query_one(struct query *q, json_t **ret);
void query_end(struct query *q);
/* A whole question with one or two texts as parameters (b NULL binds NULL): its first row, or whether there
 * is one. */
int query_get(struct store *s, const char *sql, const char *a, const char *b, json_t **ret);
int query_exists(struct store *s, const char *sql, const char *a, const char *b);
/* Text that may hold foreign bytes; what is not UTF-8 becomes U+FFFD. */
json_t *json_from_text(const char *text, size_t len);

#endif
