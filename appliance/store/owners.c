/* Owners and the keys that an admin gives and takes. */
#include <errno.h>
#include <string.h>

#include "ids.h"
#include "page.h"

#define OWNER_COLUMNS                                                                  \
	"id, name, created_at, json_extract(quota, '$.sandboxes') AS quota_sandboxes," \
	" (rowid = (SELECT min(rowid) FROM owners)) AS \"first:bool\", rowid AS \"seq:skip\""
enum { OWNER_SEQ = 5 };

#define KEY_COLUMNS                                                                                  \
	"id, owner_id, name, admin AS \"admin:bool\", created_at, expires_at AS \"expires_at:opt\"," \
	" revoked_at AS \"revoked_at:opt\", rowid AS \"seq:skip\""
enum { KEY_SEQ = 7 };

int store_owner_new(struct store *s, const char *by, const char *name, int quota_sandboxes,
		    char ret_id[STORE_ID_MAX], struct fault *f)
{
	static const char sql[] = "INSERT INTO owners (id, name, quota, created_ms) VALUES (?, ?, ?, ?)";
	json_t *quota = quota_sandboxes < 0 ? NULL : json_pack("{s:i}", "sandboxes", quota_sandboxes);
	struct store_txn *t = store_txn_new(s);
	char id[STORE_ID_MAX];
	json_t *detail;
	struct step *step;
	int err;

	id_new("own", id);
	detail = json_pack("{s:s}", "owner_id", id);
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

/* As it is shown: the quota as an object, or left out where the appliance's own holds. */
static int owner_complete(struct store *s, json_t *row, size_t *cost)
{
	json_t *quota = json_object_get(row, "quota_sandboxes");
	int err = 0;

	(void)s;
	(void)cost;
	if (json_is_integer(quota))
		err = json_object_set_new(row, "quota", json_pack("{s:O}", "sandboxes", quota));
	json_object_del(row, "quota_sandboxes");
	return err ? -ENOMEM : 0;
}

int store_owner_get(struct store *s, const char *id, json_t **ret)
{
	static const char sql[] = "SELECT " OWNER_COLUMNS " FROM owners WHERE id = ?";
	int err = query_get(s, sql, id, NULL, ret);

	return err ? err : owner_complete(s, *ret, NULL);
}

int store_owner_list(struct store *s, unsigned limit, const char *cursor, json_t **ret)
{
	static const char sql[] = "SELECT " OWNER_COLUMNS " FROM owners WHERE rowid < ?1 ORDER BY rowid DESC";
	struct query q;
	int err = page_begin(&q, s, sql, cursor);

	return err ? err : page_end(&q, limit, "owners", OWNER_SEQ, owner_complete, ret);
}

int store_owner_quota(struct store *s, const char *id, unsigned fallback, unsigned *ret)
{
	static const char sql[] = "SELECT json_extract(quota, '$.sandboxes') FROM owners WHERE id = ?";
	struct query q;
	int err = query_begin(&q, s, sql);

	if (err)
		return err;
	query_text(&q, id);
	err = query_step(&q);
	if (err == 1)
		*ret = sqlite3_column_type(q.st, 0) == SQLITE_INTEGER ? (unsigned)sqlite3_column_int(q.st, 0)
								      : fallback;
	query_end(&q);
	if (err == 0)
		return -ENOENT;
	return err < 0 ? err : 0;
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
