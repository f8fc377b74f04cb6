/* What readers are shown in place of rows that could not be written yet. */
#include "known.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct known {
	struct known *next;
	char id[STORE_ID_MAX];
	json_t *fields;
};

static struct known **known_at(struct store *s, const char *id)
{
	struct known **at = &s->known;

	while (*at && strcmp((*at)->id, id) != 0)
		at = &(*at)->next;
	return at;
}

static void known_drop(struct known **at)
{
	struct known *k = *at;

	*at = k->next;
	json_decref(k->fields);
	free(k);
}

int store_known_set(struct store *s, const char *id, json_t *fields)
{
	struct known *k = fields ? malloc(sizeof(*k)) : NULL, **at;

	if (fields && !k) {
		json_decref(fields);
		return -ENOMEM;
	}
	pthread_mutex_lock(&s->known_lock);
	at = known_at(s, id);
	if (*at)
		known_drop(at);
	if (k) {
		*k = (struct known){ .next = s->known, .fields = fields };
		snprintf(k->id, sizeof(k->id), "%s", id);
		s->known = k;
	}
	pthread_mutex_unlock(&s->known_lock);
	return 0;
}

void known_free(struct store *s)
{
	while (s->known)
		known_drop(&s->known);
}

/* known(id, column, value) */
static void known_call(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
	struct store *s = sqlite3_user_data(sql);
	const char *id = (const char *)sqlite3_value_text(argv[0]);
	const char *column = (const char *)sqlite3_value_text(argv[1]);
	json_t *field = NULL;
	struct known *k;

	(void)argc;
	pthread_mutex_lock(&s->known_lock);
	k = s->known && id ? *known_at(s, id) : NULL;
	if (k && column)
		field = json_object_get(k->fields, column);
	if (json_is_integer(field))
		sqlite3_result_int64(sql, json_integer_value(field));
	else if (json_is_string(field))
		sqlite3_result_text(sql, json_string_value(field), (int)json_string_length(field),
				    SQLITE_TRANSIENT);
	else
		sqlite3_result_value(sql, argv[2]);
	pthread_mutex_unlock(&s->known_lock);
}

int known_function(struct store *s, struct db *db)
{
	return sqlite3_create_function(db->conn, "known", 3, SQLITE_UTF8, s, known_call, NULL, NULL);
}
