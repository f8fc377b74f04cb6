#include "reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip.h"
#include "known.h"

struct db *reader_take(struct store *s)
{
	char path[STORE_PATH_MAX];
	struct db *db = NULL;
	struct fault f;

	pthread_mutex_lock(&s->readers_lock);
	if (s->reader_count > 0)
		db = s->readers[--s->reader_count];
	pthread_mutex_unlock(&s->readers_lock);
	if (db)
		return db;
	snprintf(path, sizeof(path), "%s/carrel.db", s->dir);
	db = malloc(sizeof(*db));
	if (db && db_open(db, path, false, &f) < 0) {
		fprintf(stderr, "carreld: %s\n", f.message);
		free(db);
		return NULL;
	}
	if (db && known_function(s, db) != SQLITE_OK) {
		fprintf(stderr, "carreld: store: %s\n", sqlite3_errmsg(db->conn));
		db_close(db);
		free(db);
		return NULL;
	}
	return db;
}

void reader_give(struct store *s, struct db *db)
{
	pthread_mutex_lock(&s->readers_lock);
	if (s->reader_count < READERS_KEPT) {
		s->readers[s->reader_count++] = db;
		db = NULL;
	}
	pthread_mutex_unlock(&s->readers_lock);
	if (!db)
		return;
	db_close(db);
	free(db);
}

void readers_close(struct store *s)
{
	while (s->reader_count > 0) {
		struct db *db = s->readers[--s->reader_count];

		db_close(db);
		free(db);
	}
}

int query_begin(struct query *q, struct store *s, const char *sql)
{
	int err;

	*q = (struct query){ .store = s, .db = reader_take(s) };
	if (!q->db)
		return -EIO;
	q->st = db_stmt(q->db, sql);
	if (q->st)
		return 0;
	err = db_errno(sqlite3_errcode(q->db->conn));
	fprintf(stderr, "carreld: store: %s\n", sqlite3_errmsg(q->db->conn));
	reader_give(s, q->db);
	return err ? err : -EIO;
}

void query_text(struct query *q, const char *text)
{
	sqlite3_bind_text(q->st, ++q->at, text, -1, SQLITE_STATIC);
}

void query_int(struct query *q, int64_t number)
{
	sqlite3_bind_int64(q->st, ++q->at, number);
}

void query_blob(struct query *q, const void *bytes, size_t len)
{
	sqlite3_bind_blob64(q->st, ++q->at, bytes, len, SQLITE_STATIC);
}

int query_step(struct query *q)
{
	int rc = sqlite3_step(q->st), err;

	if (rc == SQLITE_ROW)
		return 1;
	if (rc == SQLITE_DONE)
		return 0;
	err = db_errno(rc);
	fprintf(stderr, "carreld: store: %s\n", sqlite3_errmsg(q->db->conn));
	return err ? err : -EIO;
}

void query_end(struct query *q)
{
	/* An open statement would hold the WAL's old pages. */
	sqlite3_reset(q->st);
	sqlite3_clear_bindings(q->st);
	reader_give(q->store, q->db);
}

json_t *json_from_text(const char *text, size_t len)
{
	json_t *json = json_stringn(text, len);
	char *clean;
	size_t clean_len;

	if (json)
		return json;
	clean = utf8_clean(text, len, &clean_len);
	json = clean ? json_stringn(clean, clean_len) : NULL;
	free(clean);
	return json;
}

static json_t *column_json(sqlite3_stmt *st, int i, const char *suffix)
{
	const char *text;

	if (sqlite3_column_type(st, i) == SQLITE_INTEGER)
		return strcmp(suffix, ":bool") == 0 ? json_boolean(sqlite3_column_int(st, i))
						    : json_integer(sqlite3_column_int64(st, i));
	if (sqlite3_column_type(st, i) == SQLITE_NULL)
		return json_null();
	text = (const char *)sqlite3_column_text(st, i);
	if (!text)
		return NULL;
	if (strcmp(suffix, ":json") == 0)
		return json_loadb(text, sqlite3_column_bytes(st, i), JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
	return json_from_text(text, sqlite3_column_bytes(st, i));
}

int query_row(struct query *q, json_t **ret)
{
	json_t *row = json_object();

	for (int i = 0; row && i < sqlite3_column_count(q->st); i++) {
		const char *name = sqlite3_column_name(q->st, i);
		const char *suffix = name + strcspn(name, ":");
		bool null = sqlite3_column_type(q->st, i) == SQLITE_NULL;
		char key[32];

		if (strcmp(suffix, ":skip") == 0 || (null && suffix[0] && strcmp(suffix, ":bool") != 0))
			continue;
		snprintf(key, sizeof(key), "%.*s", (int)(suffix - name), name);
		if (json_object_set_new(row, key, column_json(q->st, i, suffix)) == 0)
			continue;
		json_decref(row);
		row = NULL;
	}
	if (!row)
		return -ENOMEM;
	*ret = row;
	return 0;
}

int query_one(struct query *q, json_t **ret)
{
	int got = query_step(q);

	if (got == 1)
		return query_row(q, ret);
	return got == 0 ? -ENOENT : got;
}

static int query_ask(struct query *q, struct store *s, const char *sql, const char *a, const char *b)
{
	int err = query_begin(q, s, sql);

	if (err)
		return err;
	query_text(q, a);
	query_text(q, b);
	return 0;
}

int query_get(struct store *s, const char *sql, const char *a, const char *b, json_t **ret)
{
	struct query q;
	int err = query_ask(&q, s, sql, a, b);

	if (err)
		return err;
	err = query_one(&q, ret);
	query_end(&q);
	return err;
}

int query_exists(struct store *s, const char *sql, const char *a, const char *b)
{
	struct query q;
	int got = query_ask(&q, s, sql, a, b);

	if (got)
		return got;
	got = query_step(&q);
	query_end(&q);
	if (got == 1)
		return 0;
	return got == 0 ? -ENOENT : got;
}
