/* Named snapshots of sandboxes: their rows, and as the REST face shows them. */
#include <errno.h>

#include "page.h"

#define SNAPSHOT_COLUMNS                                                                              \
	"id, name AS \"name:opt\", sandbox_id, engine, template, image, limits AS \"limits:json\"," \
	" bytes, created_at"

void store_txn_snapshot(struct store_txn *t, const struct snapshot_row *row)
{
	static const char sql[] =
		"INSERT INTO snapshots (id, owner_id, name, sandbox_id, engine, template, image, limits, env,"
		"  bytes, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
	struct step *step = txn_row(t, sql);

	step_text(t, step, row->id);
	step_text(t, step, row->owner_id);
	step_text(t, step, row->name);
	step_text(t, step, row->sandbox_id);
	step_text(t, step, row->engine);
	step_text(t, step, row->template_name);
	step_text(t, step, row->image);
	step_json(t, step, row->limits, "{}");
	step_json(t, step, row->env, "{}");
	step_int(step, (int64_t)row->bytes);
	step_int(step, row->created_ms);
}

void store_txn_snapshot_gone(struct store_txn *t, const char *snapshot_id)
{
	static const char sql[] = "DELETE FROM snapshots WHERE id = ?";

	step_text(t, txn_row(t, sql), snapshot_id);
}

int store_snapshot_get(struct store *s, const char *owner_id, const char *id, json_t **ret)
{
	static const char sql[] = "SELECT " SNAPSHOT_COLUMNS ", env AS \"env:json\" FROM snapshots"
				  " WHERE id = ?1 AND (?2 IS NULL OR owner_id = ?2)";

	return query_get(s, sql, id, owner_id, ret);
}

int store_snapshot_list(struct store *s, const char *owner_id, unsigned limit, const char *cursor, json_t **ret)
{
	static const char sql[] = "SELECT " SNAPSHOT_COLUMNS ", seq AS \"seq:skip\" FROM snapshots"
				  " WHERE seq < ?1 AND owner_id = ?2 ORDER BY seq DESC";
	enum { SNAPSHOT_SEQ = 9 };
	struct query q;
	int err = page_begin(&q, s, sql, cursor);

	if (err)
		return err;
	query_text(&q, owner_id);
	return page_end(&q, limit, "snapshots", SNAPSHOT_SEQ, NULL, ret);
}

int store_snapshot_count(struct store *s, const char *owner_id, unsigned *ret)
{
	static const char sql[] = "SELECT count(*) FROM snapshots WHERE owner_id = ?";
	struct query q;
	int err = query_begin(&q, s, sql), got;

	if (err)
		return err;
	query_text(&q, owner_id);
	got = query_step(&q);
	if (got == 1)
		*ret = (unsigned)sqlite3_column_int64(q.st, 0);
	query_end(&q);
	return got < 0 ? got : 0;
}
