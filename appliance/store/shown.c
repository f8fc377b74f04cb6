/* Sandboxes and executions as the REST face shows them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"

#define SANDBOX_COLUMNS                                                                                    \
	"id, known(id, 'state', state) AS state, engine, template, image, started, created_at, deadline, " \
	"limits AS \"limits:json\","                                                                       \
	" metadata AS \"metadata:json\", known(id, 'end_reason', end_reason) AS \"end_reason:opt\", "      \
	"known(id, 'message', message) AS \"message:opt\","                                                \
	" known(id, 'ended_at', ended_at) AS \"ended_at:opt\", nullif(on_timeout, 'kill') AS "             \
	"\"on_timeout:opt\","                                                                              \
	" CASE WHEN auto_resume THEN 'true' END AS \"auto_resume:json\","                                  \
	" paused_at AS \"paused_at:opt\", seq AS \"seq:skip\""
enum { SANDBOX_SEQ = 16 };

#define EXECUTION_COLUMNS                                                                                  \
	"e.id AS execution_id, e.sandbox_id, e.kernel_id, e.code, known(e.id, 'status', e.status) AS "     \
	"status, known(e.id, 'reason', e.reason) AS \"reason:opt\","                                       \
	" known(e.id, 'exit_code', e.exit_code) AS \"exit_code:opt\", known(e.id, 'signal', e.signal) AS " \
	"\"signal:opt\", known(e.id, 'execution_count', e.execution_count) AS execution_count,"            \
	" e.kernel_restarted AS \"kernel_restarted:bool\", e.queued_at, known(e.id, 'started_at', "        \
	"e.started_at) AS started_at, known(e.id, 'ended_at', e.ended_at) AS ended_at,"                    \
	" e.seq AS \"seq:skip\""
enum { EXECUTION_SEQ = 13 };

int store_sandbox_get(struct store *s, const char *owner_id, const char *id, json_t **ret)
{
	static const char sql[] = "SELECT " SANDBOX_COLUMNS " FROM sandboxes"
				  " WHERE id = ?1 AND (?2 IS NULL OR owner_id = ?2)";

	return query_get(s, sql, id, owner_id, ret);
}

int store_sandbox_list(struct store *s, const char *owner_id, const char *state, const char *template_name,
		       unsigned limit, const char *cursor, json_t **ret)
{
	static const char sql[] = "SELECT " SANDBOX_COLUMNS " FROM sandboxes WHERE seq < ?1"
				  " AND (?2 IS NULL OR owner_id = ?2)"
				  " AND instr(',' || ?3 || ',', ',' || known(id, 'state', state) || ',') > 0"
				  " AND (?4 IS NULL OR template = ?4) ORDER BY seq DESC";
	struct query q;
	int err = page_begin(&q, s, sql, cursor);

	if (err)
		return err;
	query_text(&q, owner_id);
	query_text(&q, state && *state ? state : "running,creating,paused");
	query_text(&q, template_name && *template_name ? template_name : NULL);
	return page_end(&q, limit, "sandboxes", SANDBOX_SEQ, NULL, ret);
}

/* Adds the row's outputs; cost counts their bytes, and past the bound data is left out. */
static int add_outputs(struct store *s, json_t *execution, size_t *cost)
{
	static const char sql[] =
		"SELECT n, kind, text, bytes, truncated AS \"truncated:bool\", mime AS \"mime:opt\","
		" CASE WHEN ?2 THEN data END AS \"data:json\", length(text) + coalesce(length(data), 0) AS "
		"\"cost:skip\""
		" FROM outputs WHERE execution_id = ?1 AND n > ?3 ORDER BY n";
	json_t *outputs = json_array(), *row;
	bool with_data = *cost < EXECUTION_JSON_MAX, again = true;
	int err = 0, got;
	int64_t last = -1;

	/* A second pass without data takes what is left once the bound is met. */
	while (again && !err) {
		struct query q;

		again = false;
		err = query_begin(&q, s, sql);
		if (err)
			break;
		query_text(&q, json_string_value(json_object_get(execution, "execution_id")));
		query_int(&q, with_data);
		query_int(&q, last);
		while (!err && (got = query_step(&q)) != 0) {
			err = got < 0 ? got : query_row(&q, &row);
			if (err)
				break;
			last = sqlite3_column_int64(q.st, 0);
			*cost += sqlite3_column_int64(q.st, 7);
			err = json_array_append_new(outputs, row) < 0 ? -ENOMEM : 0;
			if (with_data && *cost >= EXECUTION_JSON_MAX) {
				with_data = false;
				again = true;
				break;
			}
		}
		query_end(&q);
	}
	if (!err && json_object_set(execution, "outputs", outputs) < 0)
		err = -ENOMEM;
	json_decref(outputs);
	return err;
}

int store_execution_get(struct store *s, const char *owner_id, const char *id, json_t **ret)
{
	static const char sql[] = "SELECT " EXECUTION_COLUMNS " FROM executions e"
				  " JOIN sandboxes b ON b.id = e.sandbox_id"
				  " WHERE e.id = ?1 AND (?2 IS NULL OR b.owner_id = ?2)";
	json_t *row;
	size_t cost = 0;
	int err = query_get(s, sql, id, owner_id, &row);

	if (err)
		return err;
	err = add_outputs(s, row, &cost);
	if (err)
		json_decref(row);
	else
		*ret = row;
	return err;
}

int store_execution_list(struct store *s, const char *owner_id, const char *sandbox_id, unsigned limit,
			 const char *cursor, json_t **ret)
{
	static const char exists[] =
		"SELECT 1 FROM sandboxes WHERE id = ?1 AND (?2 IS NULL OR owner_id = ?2)";
	static const char sql[] = "SELECT " EXECUTION_COLUMNS " FROM executions e"
				  " WHERE e.seq < ?1 AND e.sandbox_id = ?2 ORDER BY e.seq DESC";
	struct query q;
	int err = query_exists(s, exists, sandbox_id, owner_id);

	if (!err)
		err = page_begin(&q, s, sql, cursor);
	if (err)
		return err;
	query_text(&q, sandbox_id);
	return page_end(&q, limit, "executions", EXECUTION_SEQ, add_outputs, ret);
}

unsigned store_running_count(struct store *s, const char *owner_id)
{
	static const char sql[] = "SELECT count(*) FROM sandboxes WHERE owner_id = ? AND state <> 'ended'"
				  " AND known(id, 'state', state) NOT IN ('ended', 'paused')";
	struct query q;
	unsigned count = 0;

	if (query_begin(&q, s, sql) < 0)
		return 0;
	query_text(&q, owner_id);
	if (query_step(&q) == 1)
		count = (unsigned)sqlite3_column_int64(q.st, 0);
	query_end(&q);
	return count;
}
