/* What the hub reads at its start: rows that were not final, with every column. */
#include <errno.h>

#include "reader.h"

static int all_rows(struct store *s, const char *sql, const char *param, json_t **ret)
{
	json_t *rows = json_array(), *row;
	struct query q;
	int err, got;

	if (!rows)
		return -ENOMEM;
	err = query_begin(&q, s, sql);
	if (err) {
		json_decref(rows);
		return err;
	}
	if (param)
		query_text(&q, param);
	while (!err && (got = query_step(&q)) != 0) {
		err = got < 0 ? got : query_row(&q, &row);
		if (!err && json_array_append_new(rows, row) < 0)
			err = -ENOMEM;
	}
	query_end(&q);
	if (err)
		json_decref(rows);
	else
		*ret = rows;
	return err;
}

int store_open_sandboxes(struct store *s, json_t **ret)
{
	static const char sql[] = "SELECT id, owner_id, state, engine, template, image, started, end_reason, "
				  "message, created_ms,"
				  " deadline_ms, ended_ms, created_at, deadline, limits AS \"limits:json\","
				  " metadata AS \"metadata:json\", env AS \"env:json\","
				  " timeout_ms, on_timeout, auto_resume AS \"auto_resume:bool\", paused_ms, base"
				  " FROM sandboxes WHERE "
				  "state <> 'ended' ORDER BY seq";

	return all_rows(s, sql, NULL, ret);
}

int store_open_kernels(struct store *s, const char *sandbox_id, json_t **ret)
{
	static const char sql[] =
		"SELECT id, sandbox_id, name, language, state, execution_count, received, sent,"
		" restarted AS \"restarted:bool\", agent_id"
		" FROM kernels WHERE sandbox_id = ? ORDER BY rowid";

	return all_rows(s, sql, sandbox_id, ret);
}

int store_open_processes(struct store *s, const char *sandbox_id, json_t **ret)
{
	static const char sql[] = "SELECT id FROM processes WHERE sandbox_id = ?";

	return all_rows(s, sql, sandbox_id, ret);
}

int store_open_executions(struct store *s, const char *sandbox_id, json_t **ret)
{
	static const char sql[] =
		"SELECT id, sandbox_id, kernel_id, status, code, reason, signal, "
		"exit_code, execution_count, queued_ms,"
		" started_ms, ended_ms, timeout_ms, last_seq, log_bytes, env AS \"env:json\", paused_ms,"
		" kernel_restarted AS \"kernel_restarted:bool\", asked AS \"asked:json\", sent_seq FROM executions"
		" WHERE sandbox_id = ? AND status IN ('queued', 'running') ORDER BY seq";

	return all_rows(s, sql, sandbox_id, ret);
}

int store_execution_asked(struct store *s, const char *sandbox_id, const char *msg_id, char ret_id[STORE_ID_MAX])
{
	static const char sql[] = "SELECT id FROM executions WHERE sandbox_id = ?1"
				  " AND json_extract(asked, '$.header.msg_id') = ?2 ORDER BY seq DESC LIMIT 1";
	json_t *row;
	int err = query_get(s, sql, sandbox_id, msg_id, &row);

	if (err < 0)
		return err;
	snprintf(ret_id, STORE_ID_MAX, "%s", json_string_value(json_object_get(row, "id")));
	json_decref(row);
	return 0;
}

int store_outputs(struct store *s, const char *execution_id, json_t **ret)
{
	static const char sql[] = "SELECT execution_id, n, kind, head, tail, bytes, spooled, truncated AS "
				  "\"truncated:bool\", mime,"
				  " data AS \"data:json\" FROM outputs WHERE execution_id = ? ORDER BY n";

	return all_rows(s, sql, execution_id, ret);
}
