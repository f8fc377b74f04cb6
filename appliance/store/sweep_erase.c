/* What goes, in transactions of a bounded size. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ids.h"
#include "spool.h"
#include "sweep_inner.h"

/* The rows first, with a note: were it cut short here, the notes say what is left to do. */
static int rows_erase(struct store *s, const struct batch *b)
{
	/* Each statement looks again whether it is over: nothing that runs is ever touched. */
	static const char history[] =
		"UPDATE history SET bytes = bytes - (SELECT coalesce(sum(stored), 0) FROM executions"
		"  WHERE id = ?1 AND status NOT IN ('queued', 'running')) WHERE owner_id = ?2";
	static const char erasing[] = "INSERT OR IGNORE INTO erasing SELECT id FROM executions"
				      " WHERE id = ? AND status NOT IN ('queued', 'running')";
	static const char row[] = "DELETE FROM executions WHERE id = ? AND status NOT IN ('queued', 'running')";
	struct store_txn *t = store_txn_new(s);
	struct step *step;
	struct fault f;

	for (unsigned i = 0; i < b->count; i++) {
		step = txn_row(t, history);
		step_text(t, step, b->each[i].id);
		step_text(t, step, b->each[i].owner_id);
		step_text(t, txn_row(t, erasing), b->each[i].id);
		step_text(t, txn_row(t, row), b->each[i].id);
	}
	return store_txn_wait(t, &f);
}

static int noted(struct store *s, char (*ret)[STORE_ID_MAX], unsigned *ret_count)
{
	static const char sql[] = "SELECT execution_id FROM erasing LIMIT ?";
	struct query q;
	int got = query_begin(&q, s, sql);

	*ret_count = 0;
	if (got)
		return got;
	query_int(&q, SWEEP_ROWS);
	return find_ids(&q, ret, ret_count);
}

/* sql: a static string, of one id. */
static int each_id(struct store *s, const char *sql, char (*ids)[STORE_ID_MAX], unsigned count)
{
	struct store_txn *t = store_txn_new(s);
	struct fault f;

	store_txn_soft(t);
	for (unsigned i = 0; i < count; i++)
		step_text(t, txn_row(t, sql), ids[i]);
	return store_txn_wait(t, &f);
}

static int notes_drop(struct store *s, char (*ids)[STORE_ID_MAX], unsigned count)
{
	return each_id(s, "DELETE FROM erasing WHERE execution_id = ?", ids, count);
}

static int spools_sync(struct store *s)
{
	char path[STORE_PATH_MAX];

	snprintf(path, sizeof(path), "%s/spool", s->dir);
	return dir_sync(path);
}

static int notes_follow(struct store *s)
{
	char ids[SWEEP_ROWS][STORE_ID_MAX];
	unsigned count;
	int err;

	do {
		err = noted(s, ids, &count);
		for (unsigned i = 0; !err && i < count; i++)
			err = spool_unlink(s->dir, ids[i]);
		if (!err && count > 0)
			err = spools_sync(s);
		if (!err && count > 0)
			err = notes_drop(s, ids, count);
	} while (!err && count == SWEEP_ROWS && !s->sweep_stops);
	return err;
}

/* True where a row has that id; also where that cannot be told. */
static bool is_named(struct store *s, const char *id)
{
	static const char sql[] = "SELECT 1 FROM executions WHERE id = ?";

	return query_exists(s, sql, id, NULL) != -ENOENT;
}

/* Files that a crash left before their row was committed. */
static int orphans_erase(struct store *s, int64_t before_ms)
{
	char path[STORE_PATH_MAX];
	struct dirent *entry;
	struct stat st;
	int err = 0;
	DIR *list;

	snprintf(path, sizeof(path), "%s/spool", s->dir);
	list = opendir(path);
	if (!list)
		return -errno;
	while (!err && !s->sweep_stops && (entry = readdir(list))) {
		if (!id_valid(entry->d_name) || fstatat(dirfd(list), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (st.st_mtim.tv_sec * 1000LL < before_ms && !is_named(s, entry->d_name))
			err = spool_unlink(s->dir, entry->d_name);
	}
	closedir(list);
	return err;
}

int sweep_leftovers(struct store *s, int64_t before_ms)
{
	int err = notes_follow(s);

	return err || before_ms == 0 ? err : orphans_erase(s, before_ms);
}

int sweep_erase(struct store *s, const struct batch *b)
{
	int err = rows_erase(s, b);

	return err ? err : notes_follow(s);
}

int sweep_audit(struct store *s, const int64_t *seqs, unsigned count)
{
	/* The triggers' door is open inside this transaction alone. */
	static const char open[] = "UPDATE sweep SET open = 1";
	static const char row[] = "DELETE FROM audit WHERE seq = ?";
	static const char shut[] = "UPDATE sweep SET open = 0";
	struct store_txn *t = store_txn_new(s);
	struct fault f;

	store_txn_soft(t);
	txn_row(t, open);
	for (unsigned i = 0; i < count; i++)
		step_int(txn_row(t, row), seqs[i]);
	txn_row(t, shut);
	return store_txn_wait(t, &f);
}

int sweep_sandboxes(struct store *s, char (*ids)[STORE_ID_MAX], unsigned count)
{
	static const char sql[] = "DELETE FROM sandboxes WHERE id = ?1 AND state = 'ended'"
				  " AND NOT EXISTS (SELECT 1 FROM executions WHERE sandbox_id = ?1)";

	return each_id(s, sql, ids, count);
}
