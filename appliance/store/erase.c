/* Erasing an execution: what it said goes, that it was stays. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reader.h"
#include "spool.h"

/* 0 when it may be erased; -EBUSY: it is not over; -ENOENT. */
static int erasable(struct store *s, const char *owner_id, const char *id, char ret_sandbox[STORE_ID_MAX])
{
	static const char sql[] = "SELECT e.status IN ('queued', 'running'), e.sandbox_id FROM executions e"
				  " JOIN sandboxes b ON b.id = e.sandbox_id"
				  " WHERE e.id = ?1 AND b.owner_id = ?2";
	struct query q;
	bool open = false;
	int got = query_begin(&q, s, sql);

	if (got)
		return got;
	query_text(&q, id);
	query_text(&q, owner_id);
	got = query_step(&q);
	if (got == 1) {
		open = sqlite3_column_int(q.st, 0);
		snprintf(ret_sandbox, STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(q.st, 1));
	}
	query_end(&q);
	if (got != 1)
		return got == 0 ? -ENOENT : got;
	return open ? -EBUSY : 0;
}

int store_execution_erase(struct store *s, const char *owner_id, const char *id, struct fault *f)
{
	static const char outputs[] = "DELETE FROM outputs WHERE execution_id = ?";
	static const char row[] = "UPDATE executions SET code = NULL, env = NULL, asked = NULL, events = NULL,"
				  " log_bytes = 0, stored = NULL WHERE id = ?";
	/* To be counted again with the little that is left. */
	static const char history[] = "UPDATE history SET bytes = bytes - (SELECT coalesce(stored, 0)"
				      " FROM executions WHERE id = ?1) WHERE owner_id = ?2";
	struct step *step;
	char sandbox_id[STORE_ID_MAX];
	struct store_txn *t;
	json_t *detail;
	int err = erasable(s, owner_id, id, sandbox_id);

	if (err == -ENOENT)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such execution.");
	if (err == -EBUSY)
		return fault_set(
			f, EBUSY, 409, "wrong_state",
			"The execution is not over yet: interrupt it, wait for its end, then erase it.");
	if (err)
		return fault_set(f, -err, 500, "store_failed", "The execution cannot be read: %s.",
				 strerror(-err));
	detail = json_pack("{s:s}", "execution_id", id);
	t = store_txn_new(s);
	/* Files first: were it cut short, the row still names what a second request takes away. */
	txn_erase(t, id);
	step_text(t, txn_row(t, outputs), id);
	step = txn_row(t, history);
	step_text(t, step, id);
	step_text(t, step, owner_id);
	step_text(t, txn_row(t, row), id);
	store_txn_audit(t, owner_id, sandbox_id, "execution_erase", detail);
	err = store_txn_wait(t, f);
	json_decref(detail);
	return err;
}

int spool_unlink(const char *state_dir, const char *execution_id)
{
	int dir = spool_dir_open(state_dir, execution_id, false), err = 0;
	char path[STORE_PATH_MAX];
	struct dirent *entry;
	DIR *list;

	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	list = fdopendir(dir);
	if (!list) {
		err = -errno;
		close(dir);
		return err;
	}
	while ((entry = readdir(list)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    unlinkat(dir, entry->d_name, 0) < 0 && errno != ENOENT)
			err = -errno;
	closedir(list);
	snprintf(path, sizeof(path), "%s/spool/%s", state_dir, execution_id);
	if (!err && rmdir(path) < 0 && errno != ENOENT)
		err = -errno;
	return err;
}

int spool_erase(const char *state_dir, const char *execution_id)
{
	char path[STORE_PATH_MAX];
	int err = spool_unlink(state_dir, execution_id);

	snprintf(path, sizeof(path), "%s/spool", state_dir);
	return err ? err : dir_sync(path);
}
