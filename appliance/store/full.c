/* The full bytes of one output: from its spool, its row's text, or its data. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader.h"
#include "spool.h"

void output_full_close(struct output_full *o)
{
	if (o->fd >= 0)
		close(o->fd);
	free(o->text);
	*o = (struct output_full){ .fd = -1 };
}

static bool is_text(const char *mime)
{
	return strncmp(mime, "text/", 5) == 0 || strcmp(mime, "application/json") == 0 ||
	       strcmp(mime, "application/javascript") == 0 || strcmp(mime, "image/svg+xml") == 0 ||
	       (strlen(mime) > 5 && strcmp(mime + strlen(mime) - 5, "+json") == 0);
}

/* The type comes from the guest and goes into a header: only a plain type/subtype passes. */
static void content_type(const char *mime, char ret[128])
{
	static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_";
	size_t type, subtype;

	if (!mime)
		mime = "text/plain";
	type = strspn(mime, token);
	subtype = mime[type] == '/' ? strspn(mime + type + 1, token) : 0;
	if (type == 0 || subtype == 0 || mime[type + 1 + subtype] || strlen(mime) > 100)
		mime = "application/octet-stream";
	snprintf(ret, 128, "%s%s", mime, is_text(mime) ? "; charset=utf-8" : "");
}

/* Jupyter's bundles carry binary types in base64, with or without line breaks. */
static int base64_decode(const char *text, char **ret, uint64_t *ret_len)
{
	size_t len = strlen(text), packed_len = 0;
	char *packed = malloc(len + 1);
	unsigned char *bytes = malloc(len / 4 * 3 + 4);
	int n = -1;

	if (packed && bytes) {
		for (size_t i = 0; i < len; i++)
			if (!strchr(" \t\r\n", text[i]))
				packed[packed_len++] = text[i];
		n = EVP_DecodeBlock(bytes, (unsigned char *)packed, (int)packed_len);
	}
	/* Padding is counted as zeros. */
	for (size_t i = packed_len; n > 0 && i > 0 && packed[i - 1] == '='; i--)
		n--;
	free(packed);
	if (n < 0) {
		free(bytes);
		return -EINVAL;
	}
	*ret = (char *)bytes;
	*ret_len = n;
	return 0;
}

static int full_from_data(const char *json, size_t len, const char *mime, struct output_full *o)
{
	json_t *data = json_loadb(json, len, JSON_ALLOW_NUL, NULL);
	json_t *part = mime ? json_object_get(data, mime) : NULL;
	int err = -ENOENT;

	if (part && !json_is_string(part)) {
		o->text = json_dumps(part, JSON_COMPACT | JSON_ENCODE_ANY);
		o->have = o->text ? strlen(o->text) : 0;
		err = o->text ? 0 : -ENOMEM;
	} else if (part && !is_text(mime)) {
		err = base64_decode(json_string_value(part), &o->text, &o->have);
	}
	/* Text, and what claims to be binary but is no base64. */
	if (err && err != -ENOMEM && json_is_string(part)) {
		o->have = json_string_length(part);
		o->text = malloc(o->have + 1);
		err = o->text ? 0 : -ENOMEM;
		if (o->text)
			memcpy(o->text, json_string_value(part), o->have + 1);
	}
	o->total = o->have;
	json_decref(data);
	return err;
}

static int full_from_head(sqlite3_stmt *st, int column, struct output_full *o)
{
	const void *head = sqlite3_column_blob(st, column);

	o->have = sqlite3_column_bytes(st, column);
	o->text = malloc(o->have + 1);
	if (!o->text)
		return -ENOMEM;
	if (o->have > 0)
		memcpy(o->text, head, o->have);
	o->text[o->have] = '\0';
	return 0;
}

static int full_from_row(struct store *s, sqlite3_stmt *st, const char *execution_id, unsigned n,
			 struct output_full *o)
{
	enum { KIND, HEAD, BYTES, SPOOLED, MIME, DATA };
	const char *kind = (const char *)sqlite3_column_text(st, KIND);
	const char *mime = (const char *)sqlite3_column_text(st, MIME);
	const char *data = (const char *)sqlite3_column_text(st, DATA);
	bool bundle = strcmp(kind, "result") == 0 || strcmp(kind, "display") == 0;

	content_type(bundle ? mime : NULL, o->content_type);
	o->total = sqlite3_column_int64(st, BYTES);
	o->have = sqlite3_column_int64(st, SPOOLED);
	if (o->have > 0) {
		o->fd = spool_open_read(s->dir, execution_id, n);
		return o->fd < 0 ? o->fd : 0;
	}
	if (bundle && data && full_from_data(data, sqlite3_column_bytes(st, DATA), mime, o) == 0)
		return 0;
	content_type(NULL, o->content_type);
	return full_from_head(st, HEAD, o);
}

/* *ret_open: the execution is not over, so the output may still come. */
static int full_find(struct store *s, const char *owner_id, const char *execution_id, unsigned n,
		     struct output_full *ret, bool *ret_open)
{
	enum { OPEN = 6 };
	static const char sql[] =
		"SELECT o.kind, o.head, o.bytes, o.spooled, o.mime, o.data, e.status IN ('queued', 'running')"
		" FROM executions e JOIN sandboxes b ON b.id = e.sandbox_id"
		" LEFT JOIN outputs o ON o.execution_id = e.id AND o.n = ?2"
		" WHERE e.id = ?1 AND (?3 IS NULL OR b.owner_id = ?3)";
	struct output_full o = { .fd = -1 };
	struct query q;
	int err = query_begin(&q, s, sql);

	if (err)
		return err;
	query_text(&q, execution_id);
	query_int(&q, n);
	query_text(&q, owner_id);
	err = query_step(&q);
	*ret_open = err == 1 && sqlite3_column_int(q.st, OPEN);
	if (err == 1 && sqlite3_column_type(q.st, 0) != SQLITE_NULL)
		err = full_from_row(s, q.st, execution_id, n, &o);
	else if (err >= 0)
		err = -ENOENT;
	query_end(&q);
	if (err)
		output_full_close(&o);
	else
		*ret = o;
	return err;
}

int store_output_open(struct store *s, const char *owner_id, const char *execution_id, unsigned n,
		      struct output_full *ret)
{
	struct fault f;
	bool open;
	int err = full_find(s, owner_id, execution_id, n, ret, &open);

	if (err != -ENOENT || !open)
		return err;
	/* Events are seen before their commit: who asks by one waits for what was queued before the question,
	 * which STORE_QUEUE_HARD_MAX bounds. */
	err = store_txn_wait(store_txn_new(s), &f);
	return err ? err : full_find(s, owner_id, execution_id, n, ret, &open);
}
