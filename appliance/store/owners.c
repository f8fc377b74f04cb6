/* Owners and the keys that an admin gives and takes. */
#include <errno.h>
#include <string.h>

#include "ids.h"
#include "page.h"

#define OWNER_COLUMNS                                                                  \
	"id, name, created_at, quota AS \"quota:json\"," \
	" (rowid = (SELECT min(rowid) FROM owners)) AS \"first:bool\", rowid AS \"seq:skip\""
enum { OWNER_SEQ = 5 };

#define KEY_COLUMNS                                                                                  \
	"id, owner_id, name, admin AS \"admin:bool\", created_at, expires_at AS \"expires_at:opt\"," \
	" revoked_at AS \"revoked_at:opt\", rowid AS \"seq:skip\""
enum { KEY_SEQ = 7 };

/* NULL where everything is as for everybody. */
static json_t *quota_json(const struct owner_quota *quota)
{
	const struct {
		const char *name;
		int value;
	} parts[] = { { "sandboxes", quota->sandboxes },
		      { "history_days", quota->history_days },
		      { "history_mb", quota->history_mb } };
	json_t *json = json_object();

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i].value >= 0)
			json_object_set_new(json, parts[i].name, json_integer(parts[i].value));
	if (json_object_size(json) > 0)
		return json;
	json_decref(json);
	return NULL;
}

int store_owner_new(struct store *s, const char *by, const char *name, const struct owner_quota *allowed,
		    char ret_id[STORE_ID_MAX], struct fault *f)
{
	static const char sql[] = "INSERT INTO owners (id, name, quota, created_ms) VALUES (?, ?, ?, ?)";
	json_t *quota = quota_json(allowed);
	struct store_txn *t = store_txn_new(s);
	char id[STORE_ID_MAX];
	json_t *detail;
	struct step *step;
	int err;

	id_new("own", id);
	detail = json_pack("{s:s, s:O*}", "owner_id", id, "quota", quota);
	step = txn_row(t, sql);
	step_text(t, step, id);
	step_text(t, step, name);
	step_json(t, step, quota, NULL);
	step_int(step, now_ms());
	store_txn_audit(t, by, NULL, "owner_new", detail);
	err = store_txn_wait(t, f);
	json_decref(quota);
	json_decref(detail);
	if (!err)
		memcpy(ret_id, id, STORE_ID_MAX);
	return err;
}

int store_owner_change(struct store *s, const char *by, const char *id, const struct owner_quota *allowed,
		       struct fault *f)
{
	static const char exists[] = "SELECT 1 FROM owners WHERE id = ?";
	static const char sql[] = "UPDATE owners SET quota = ? WHERE id = ?";
	json_t *quota, *detail;
	struct store_txn *t;
	struct step *step;
	int err = query_exists(s, exists, id, NULL);

	if (err == -ENOENT)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such owner.");
	if (err)
		return fault_set(f, -err, 500, "store_failed", "The owners cannot be read: %s.", strerror(-err));
	quota = quota_json(allowed);
	detail = json_pack("{s:s, s:O*}", "owner_id", id, "quota", quota);
	t = store_txn_new(s);
	step = txn_row(t, sql);
	step_json(t, step, quota, NULL);
	step_text(t, step, id);
	store_txn_audit(t, by, NULL, "owner_change", detail);
	err = store_txn_wait(t, f);
	json_decref(quota);
	json_decref(detail);
	return err;
}

int store_owner_get(struct store *s, const char *id, json_t **ret)
{
	static const char sql[] = "SELECT " OWNER_COLUMNS " FROM owners WHERE id = ?";

	return query_get(s, sql, id, NULL, ret);
}

int store_owner_list(struct store *s, unsigned limit, const char *cursor, json_t **ret)
{
	static const char sql[] = "SELECT " OWNER_COLUMNS " FROM owners WHERE rowid < ?1 ORDER BY rowid DESC";
	struct query q;
	int err = page_begin(&q, s, sql, cursor);

	return err ? err : page_end(&q, limit, "owners", OWNER_SEQ, NULL, ret);
}

/* At the owner's row: query_end() is due after 0. -ENOENT: there is none. */
static int owner_begin(struct query *q, struct store *s, const char *sql, const char *id)
{
	int got = query_begin(q, s, sql);

	if (got)
		return got;
	query_text(q, id);
	got = query_step(q);
	if (got == 1)
		return 0;
	query_end(q);
	return got < 0 ? got : -ENOENT;
}

int store_owner_quota(struct store *s, const char *id, unsigned fallback, unsigned *ret)
{
	static const char sql[] = "SELECT json_extract(quota, '$.sandboxes') FROM owners WHERE id = ?";
	struct query q;
	int err = owner_begin(&q, s, sql, id);

	if (err)
		return err;
	*ret = sqlite3_column_type(q.st, 0) == SQLITE_INTEGER ? (unsigned)sqlite3_column_int(q.st, 0) : fallback;
	query_end(&q);
	return 0;
}

int store_owner_history(struct store *s, const char *id, unsigned *days, unsigned *mb)
{
	static const char sql[] = "SELECT json_extract(quota, '$.history_days'), json_extract(quota, '$.history_mb')"
				  " FROM owners WHERE id = ?";
	struct query q;
	int err = owner_begin(&q, s, sql, id);

	if (err)
		return err;
	if (sqlite3_column_type(q.st, 0) == SQLITE_INTEGER)
		*days = (unsigned)sqlite3_column_int(q.st, 0);
	if (sqlite3_column_type(q.st, 1) == SQLITE_INTEGER)
		*mb = (unsigned)sqlite3_column_int(q.st, 1);
	query_end(&q);
	return 0;
}

int store_key_list(struct store *s, const char *owner_id, unsigned limit, const char *cursor, json_t **ret)
{
	static const char sql[] =
		"SELECT " KEY_COLUMNS " FROM keys WHERE rowid < ?1 AND owner_id = ?2 ORDER BY rowid DESC";
	struct query q;
	int err = page_begin(&q, s, sql, cursor);

	if (err)
		return err;
	query_text(&q, owner_id);
	return page_end(&q, limit, "keys", KEY_SEQ, NULL, ret);
}

int store_key_revoke(struct store *s, const char *by, const char *id, struct fault *f)
{
	static const char exists[] = "SELECT 1 FROM keys WHERE id = ?";
	static const char sql[] = "UPDATE keys SET revoked_ms = ? WHERE id = ? AND revoked_ms IS NULL";
	struct store_txn *t;
	struct step *step;
	json_t *detail;
	int err = query_exists(s, exists, id, NULL);

	if (err == -ENOENT)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such key.");
	if (err)
		return fault_set(f, -err, 500, "store_failed", "The keys cannot be read: %s.",
				 strerror(-err));
	detail = json_pack("{s:s}", "key_id", id);
	t = store_txn_new(s);
	step = txn_row(t, sql);
	step_int(step, now_ms());
	step_text(t, step, id);
	store_txn_audit(t, by, NULL, "key_revoke", detail);
	err = store_txn_wait(t, f);
	json_decref(detail);
	return err;
}
