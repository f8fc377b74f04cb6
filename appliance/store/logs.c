/* The event log that goes with an execution's row. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

struct log_row {
	bool final;
	uint64_t log_bytes, last_seq;
	char *lines; /* the caller's to free; NULL: they lie in a file */
};

static int log_row_get(struct store *s, const char *owner_id, const char *execution_id, struct log_row *ret)
{
	static const char sql[] = "SELECT e.status NOT IN ('queued', 'running'), e.log_bytes, e.last_seq, e.events"
				  " FROM executions e JOIN sandboxes b ON b.id = e.sandbox_id"
				  " WHERE e.id = ?1 AND (?2 IS NULL OR b.owner_id = ?2)";
	const char *lines = NULL;
	struct query q;
	int got = query_begin(&q, s, sql);

	if (got)
		return got;
	query_text(&q, execution_id);
	query_text(&q, owner_id);
	got = query_step(&q);
	if (got == 1) {
		*ret = (struct log_row){ .final = sqlite3_column_int(q.st, 0),
					 .log_bytes = sqlite3_column_int64(q.st, 1),
					 .last_seq = sqlite3_column_int64(q.st, 2) };
		lines = (const char *)sqlite3_column_text(q.st, 3);
		/* Not longer than the row says, so that the bytes can be counted on. */
		if (lines && (uint64_t)sqlite3_column_bytes(q.st, 3) != ret->log_bytes)
			got = -EUCLEAN;
		else if (lines && !(ret->lines = strdup(lines)))
			got = -ENOMEM;
	}
	query_end(&q);
	if (got == 1)
		return 0;
	return got == 0 ? -ENOENT : got;
}

int store_log_open(struct store *s, const char *owner_id, const char *execution_id, struct xlog **ret)
{
	struct xlog *open_now;
	struct log_row row;
	int err;

	/* Twice: a log that ran when its row was read may have ended and been closed before the look for it.
	 */
	for (int i = 0; i < 2; i++) {
		err = log_row_get(s, owner_id, execution_id, &row);
		if (err)
			return err;
		open_now = xlog_find(execution_id);
		if (!open_now && row.lines)
			err = xlog_open_lines(execution_id, row.lines, row.log_bytes, row.last_seq, &open_now);
		free(row.lines);
		if (err)
			return err;
		if (open_now) {
			*ret = open_now;
			return 0;
		}
		if (row.final)
			return xlog_open(s->dir, execution_id, false, row.log_bytes, row.last_seq, true, ret);
	}
	return -EAGAIN;
}
