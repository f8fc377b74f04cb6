#include "usage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reader.h"

enum {
	/* A value to group by; longer ones are descriptions. */
	VALUE_MAX = 256,
	FORGET_ROWS = 500,
};

/* Metadata's single values, as many as there is room for. */
static json_t *tags_of(json_t *metadata)
{
	json_t *tags = json_object(), *value;
	const char *key;
	size_t room = USAGE_TAGS_MAX;

	json_object_foreach(metadata, key, value)
	{
		size_t len = strlen(key) + (json_is_string(value) ? json_string_length(value) : 24) + 8;
		bool single = json_is_string(value) || json_is_number(value) || json_is_boolean(value);

		if (!single || (json_is_string(value) && json_string_length(value) > VALUE_MAX) || len > room)
			continue;
		json_object_set(tags, key, value);
		room -= len;
	}
	return tags;
}

static void reading_add(struct store_txn *t, const struct usage_row *row)
{
	static const char sql[] =
		"INSERT INTO usage_of (sandbox_id, owner_id, tags, at_ms, counter_us, life_us)"
		" VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (sandbox_id) DO UPDATE SET at_ms = excluded.at_ms,"
		"  counter_us = excluded.counter_us, life_us = excluded.life_us";
	json_t *tags = tags_of(row->metadata);
	struct step *step = txn_row(t, sql);

	step_text(t, step, row->sandbox_id);
	step_text(t, step, row->owner_id);
	step_json(t, step, tags, "{}");
	step_int(step, row->at_ms);
	step_int(step, row->counter_us);
	step_int(step, row->life_us);
	json_decref(tags);
}

void store_txn_usage(struct store_txn *t, const struct usage_row *row)
{
	static const char sql[] =
		"INSERT INTO usage (hour_ms, sandbox_id, cpu_us, mib_ms, ended) VALUES (?, ?, ?, ?, ?)"
		" ON CONFLICT (hour_ms, sandbox_id) DO UPDATE SET cpu_us = cpu_us + excluded.cpu_us,"
		"  mib_ms = mib_ms + excluded.mib_ms, ended = coalesce(excluded.ended, ended)";
	struct step *step;
	int64_t now = now_ms();

	reading_add(t, row);
	step = txn_row(t, sql);
	step_int(step, now - now % HOUR_MS);
	step_text(t, step, row->sandbox_id);
	step_int(step, row->cpu_us);
	step_int(step, row->mib_ms);
	step_text(t, step, row->ended);
}

int store_usage_reading(struct store *s, const char *sandbox_id, int64_t *ret_at_ms, int64_t *ret_counter_us,
			int64_t *ret_life_us)
{
	static const char sql[] = "SELECT at_ms, counter_us, life_us FROM usage_of WHERE sandbox_id = ?";
	struct query q;
	int got = query_begin(&q, s, sql);

	*ret_at_ms = *ret_counter_us = 0;
	*ret_life_us = -1;
	if (got)
		return got;
	query_text(&q, sandbox_id);
	got = query_step(&q);
	if (got == 1) {
		*ret_at_ms = sqlite3_column_int64(q.st, 0);
		*ret_counter_us = sqlite3_column_int64(q.st, 1);
		*ret_life_us = sqlite3_column_int64(q.st, 2);
	}
	query_end(&q);
	return got < 0 ? got : 0;
}

/* --- the question --- */

enum { OWNER, NAME, VALUE, WHAT, REASON, A, B, C };

static bool same_group(json_t *group, sqlite3_stmt *st)
{
	const char *value = (const char *)sqlite3_column_text(st, VALUE);
	const char *had = json_string_value(json_object_get(group, "value"));

	if (!group || strcmp(json_string_value(json_object_get(group, "owner_id")),
			     (const char *)sqlite3_column_text(st, OWNER)) != 0)
		return false;
	return value && had ? strcmp(value, had) == 0 : !value == !had;
}

static json_t *group_new(sqlite3_stmt *st, bool tagged)
{
	json_t *name = json_from_text((const char *)sqlite3_column_text(st, NAME), sqlite3_column_bytes(st, NAME));
	json_t *group = json_pack("{s:s, s:o, s:i, s:f, s:f, s:I, s:{}}", "owner_id",
				  (const char *)sqlite3_column_text(st, OWNER), "owner", name, "sandboxes", 0, "cpu_s",
				  0.0, "mib_s", 0.0, "bytes_stored", (json_int_t)0, "ends");
	const char *value = (const char *)sqlite3_column_text(st, VALUE);

	if (group && tagged)
		json_object_set_new(group, "value",
				    value ? json_from_text(value, sqlite3_column_bytes(st, VALUE)) : json_null());
	return group;
}

/* Thousandths are what was measured. */
static json_t *thousandths(int64_t number, int64_t unit)
{
	return json_real((double)(number / (unit / 1000)) / 1000.0);
}

static void group_add(json_t *group, sqlite3_stmt *st)
{
	const char *what = (const char *)sqlite3_column_text(st, WHAT);
	int64_t a = sqlite3_column_int64(st, A);
	json_t *stored = json_object_get(group, "bytes_stored");

	if (what[0] == 'u') {
		json_object_set_new(group, "sandboxes", json_integer(a));
		json_object_set_new(group, "cpu_s", thousandths(sqlite3_column_int64(st, B), 1000000));
		json_object_set_new(group, "mib_s", thousandths(sqlite3_column_int64(st, C), 1000));
	} else if (what[0] == 'e') {
		json_object_set_new(json_object_get(group, "ends"), (const char *)sqlite3_column_text(st, REASON),
				    json_integer(a));
	} else {
		json_integer_set(stored, json_integer_value(stored) + a);
	}
}

static int groups(struct query *q, bool tagged, json_t *list)
{
	json_t *group = NULL;
	int got;

	while ((got = query_step(q)) == 1) {
		if (!same_group(group, q->st)) {
			group = group_new(q->st, tagged);
			if (!group || json_array_append_new(list, group) < 0)
				return -ENOMEM;
		}
		group_add(group, q->st);
	}
	return got;
}

int store_usage(struct store *s, const struct usage_query *query, json_t **ret)
{
	/* ?5: the path of the tag, or NULL, which makes every value NULL. */
	static const char sql[] =
		"SELECT x.owner_id, o.name, x.value, x.what, x.reason, x.a, x.b, x.c FROM ("
		" SELECT f.owner_id, json_extract(f.tags, ?5) AS value, 'used' AS what, NULL AS reason,"
		"   count(DISTINCT u.sandbox_id) AS a, sum(u.cpu_us) AS b, sum(u.mib_ms) AS c"
		"  FROM usage u JOIN usage_of f ON f.sandbox_id = u.sandbox_id"
		"  WHERE u.hour_ms >= ?1 AND u.hour_ms < ?2 GROUP BY 1, 2"
		" UNION ALL SELECT f.owner_id, json_extract(f.tags, ?5), 'ended', u.ended, count(*), 0, 0"
		"  FROM usage u JOIN usage_of f ON f.sandbox_id = u.sandbox_id"
		"  WHERE u.hour_ms >= ?1 AND u.hour_ms < ?2 AND u.ended IS NOT NULL GROUP BY 1, 2, 4"
		" UNION ALL SELECT b.owner_id, json_extract(b.metadata, ?5), 'stored', NULL, sum(e.stored), 0, 0"
		"  FROM executions e JOIN sandboxes b ON b.id = e.sandbox_id WHERE ?4 AND e.stored IS NOT NULL GROUP BY 1, 2"
		" UNION ALL SELECT h.owner_id, NULL, 'stored', NULL, h.bytes, 0, 0 FROM history h WHERE NOT ?4"
		" UNION ALL SELECT n.owner_id, json_extract(b.metadata, ?5), 'stored', NULL, sum(n.bytes), 0, 0"
		"  FROM snapshots n LEFT JOIN sandboxes b ON b.id = n.sandbox_id GROUP BY 1, 2"
		") x JOIN owners o ON o.id = x.owner_id WHERE ?3 IS NULL OR x.owner_id = ?3 ORDER BY 1, 3";
	char path[USAGE_TAG_MAX + 8];
	json_t *list = json_array();
	struct query q;
	int err = list ? query_begin(&q, s, sql) : -ENOMEM;

	if (err) {
		json_decref(list);
		return err;
	}
	snprintf(path, sizeof(path), "$.\"%s\"", query->tag ? query->tag : "");
	query_int(&q, query->since_ms - query->since_ms % HOUR_MS);
	query_int(&q, query->until_ms);
	query_text(&q, query->owner_id);
	query_int(&q, query->tag != NULL);
	query_text(&q, query->tag ? path : NULL);
	err = groups(&q, query->tag != NULL, list);
	query_end(&q);
	if (err)
		json_decref(list);
	else
		*ret = list;
	return err;
}

int store_usage_sweep(struct store *s)
{
	static const char rows[] = "DELETE FROM usage WHERE (hour_ms, sandbox_id) IN"
				   " (SELECT hour_ms, sandbox_id FROM usage WHERE hour_ms < ? LIMIT ?)";
	static const char readings[] =
		"DELETE FROM usage_of WHERE sandbox_id IN (SELECT sandbox_id FROM usage_of f WHERE at_ms = 0"
		" AND NOT EXISTS (SELECT 1 FROM usage u WHERE u.sandbox_id = f.sandbox_id)"
		" AND NOT EXISTS (SELECT 1 FROM sandboxes b WHERE b.id = f.sandbox_id) LIMIT ?)";
	struct store_txn *t = store_txn_new(s);
	struct step *step;
	struct fault f;

	store_txn_soft(t);
	step = txn_row(t, rows);
	step_int(step, now_ms() - USAGE_KEPT_DAYS * (int64_t)DAY_MS);
	step_int(step, FORGET_ROWS);
	step_int(txn_row(t, readings), FORGET_ROWS);
	return store_txn_wait(t, &f);
}
