/* The rows of a transaction: one statement and its parameters for each kind.
 * Upserts, never REPLACE, which would delete what refers to the row. */
#include "inner.h"

#include <time.h>

int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void store_txn_sandbox(struct store_txn *t, const struct sandbox_row *row)
{
	static const char sql[] =
		"INSERT INTO sandboxes (id, owner_id, state, engine, template, image, started, end_reason, "
		"message,"
		"  created_ms, deadline_ms, ended_ms, limits, metadata, env, timeout_ms, on_timeout, auto_resume,"
		"  paused_ms, base)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
		" ON CONFLICT (id) DO UPDATE SET owner_id = excluded.owner_id, state = excluded.state,"
		"  engine = excluded.engine, template = excluded.template, image = excluded.image,"
		"  started = excluded.started, end_reason = excluded.end_reason, message = excluded.message,"
		"  created_ms = excluded.created_ms, deadline_ms = excluded.deadline_ms,"
		"  ended_ms = excluded.ended_ms, limits = excluded.limits, metadata = excluded.metadata,"
		"  env = excluded.env, timeout_ms = excluded.timeout_ms, on_timeout = excluded.on_timeout,"
		"  auto_resume = excluded.auto_resume, paused_ms = excluded.paused_ms, base = excluded.base";
	struct step *step = txn_row(t, sql);

	step_text(t, step, row->id);
	step_text(t, step, row->owner_id);
	step_text(t, step, row->state);
	step_text(t, step, row->engine);
	step_text(t, step, row->template_name);
	step_text(t, step, row->image);
	step_text(t, step, row->started);
	step_text(t, step, row->end_reason);
	step_text(t, step, row->message);
	step_int(step, row->created_ms);
	step_int_or_null(step, row->deadline_ms, 0);
	step_int_or_null(step, row->ended_ms, 0);
	step_json(t, step, row->limits, "{}");
	step_json(t, step, row->metadata, "{}");
	step_json(t, step, row->env, "{}");
	step_int_or_null(step, row->timeout_ms, 0);
	step_text(t, step, row->on_timeout ? row->on_timeout : "kill");
	step_int(step, row->auto_resume);
	step_int_or_null(step, row->paused_ms, 0);
	step_text(t, step, row->base);
}

void store_txn_kernel(struct store_txn *t, const struct kernel_row *row)
{
	static const char sql[] =
		"INSERT INTO kernels (id, sandbox_id, name, language, state, execution_count, received, sent,"
		"  restarted, agent_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
		" ON CONFLICT (id) DO UPDATE SET name = excluded.name, language = excluded.language,"
		"  state = excluded.state, execution_count = excluded.execution_count,"
		"  received = excluded.received, sent = excluded.sent, restarted = excluded.restarted,"
		"  agent_id = excluded.agent_id";
	struct step *step = txn_row(t, sql);

	step_text(t, step, row->id);
	step_text(t, step, row->sandbox_id);
	step_text(t, step, row->name);
	step_text(t, step, row->language);
	step_text(t, step, row->state);
	step_int(step, row->execution_count);
	step_int(step, (int64_t)row->received);
	step_int(step, (int64_t)row->sent);
	step_int(step, row->restarted);
	step_text(t, step, row->agent_id);
}

void store_txn_kernel_gone(struct store_txn *t, const char *kernel_id)
{
	static const char sql[] = "DELETE FROM kernels WHERE id = ?";

	step_text(t, txn_row(t, sql), kernel_id);
}

void store_txn_kernels_gone(struct store_txn *t, const char *sandbox_id)
{
	static const char sql[] = "DELETE FROM kernels WHERE sandbox_id = ?";

	step_text(t, txn_row(t, sql), sandbox_id);
}

void store_txn_process(struct store_txn *t, const char *sandbox_id, const char *process_id)
{
	static const char sql[] = "INSERT INTO processes (id, sandbox_id) VALUES (?, ?)";
	struct step *step = txn_row(t, sql);

	step_text(t, step, process_id);
	step_text(t, step, sandbox_id);
}

void store_txn_process_gone(struct store_txn *t, const char *process_id)
{
	static const char sql[] = "DELETE FROM processes WHERE id = ?";

	step_text(t, txn_row(t, sql), process_id);
}

void store_txn_execution(struct store_txn *t, const struct execution_row *row)
{
	static const char sql[] =
		"INSERT INTO executions (id, sandbox_id, kernel_id, status, code, reason, signal, exit_code,"
		"  execution_count, queued_ms, started_ms, ended_ms, timeout_ms, last_seq, log_bytes, env,"
		"  kernel_restarted, paused_ms, asked, sent_seq)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
		" ON CONFLICT (id) DO UPDATE SET kernel_id = excluded.kernel_id, status = excluded.status,"
		"  code = coalesce(excluded.code, code), env = coalesce(excluded.env, env), reason = "
		"excluded.reason, signal = excluded.signal,"
		"  exit_code = excluded.exit_code, execution_count = excluded.execution_count,"
		"  queued_ms = excluded.queued_ms, started_ms = excluded.started_ms, ended_ms = "
		"excluded.ended_ms,"
		"  timeout_ms = excluded.timeout_ms, last_seq = excluded.last_seq, log_bytes = "
		"excluded.log_bytes, kernel_restarted = excluded.kernel_restarted, paused_ms = excluded.paused_ms,"
		"  asked = coalesce(excluded.asked, asked), sent_seq = excluded.sent_seq";
	struct step *step = txn_row(t, sql);

	step_text(t, step, row->id);
	step_text(t, step, row->sandbox_id);
	step_text(t, step, row->kernel_id);
	step_text(t, step, row->status);
	step_text(t, step, row->code);
	step_text(t, step, row->reason);
	step_text(t, step, row->signal);
	step_int_or_null(step, row->exit_code, -1);
	step_int(step, row->execution_count);
	step_int_or_null(step, row->queued_ms, 0);
	step_int_or_null(step, row->started_ms, 0);
	step_int_or_null(step, row->ended_ms, 0);
	step_int_or_null(step, row->timeout_ms, 0);
	step_int(step, (int64_t)row->last_seq);
	step_int(step, (int64_t)row->log_bytes);
	step_json(t, step, row->env, NULL);
	step_int(step, row->kernel_restarted);
	step_int(step, row->paused_ms);
	step_json(t, step, row->asked, NULL);
	step_int_or_null(step, (int64_t)row->sent_seq, 0);
}

/* A bundle past its bound stays in the spool only, and the row says so. */
static bool step_bundle(struct store_txn *t, struct step *step, json_t *data)
{
	size_t len = data ? json_dumpb(data, NULL, 0, JSON_COMPACT) : 0;
	bool fits = len <= OUTPUT_DATA_MAX;

	step_json(t, step, fits ? data : NULL, NULL);
	return fits;
}

void store_txn_output(struct store_txn *t, const struct output_row *row)
{
	static const char sql[] =
		"INSERT INTO outputs (execution_id, n, data, truncated, kind, head, tail, bytes, spooled, "
		"mime)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
		" ON CONFLICT (execution_id, n) DO UPDATE SET data = excluded.data,"
		"  truncated = excluded.truncated, kind = excluded.kind, head = excluded.head,"
		"  tail = excluded.tail, bytes = excluded.bytes, spooled = excluded.spooled, mime = "
		"excluded.mime";
	struct step *step = txn_row(t, sql);
	bool fits;

	step_text(t, step, row->execution_id);
	step_int(step, row->n);
	fits = step_bundle(t, step, row->data);
	step_int(step, row->truncated || !fits);
	step_text(t, step, row->kind);
	step_text_n(t, step, row->head, row->head_len);
	step_text_n(t, step, row->tail, row->tail_len);
	step_int(step, (int64_t)row->bytes);
	step_int(step, (int64_t)row->spooled);
	step_text(t, step, row->mime);
}
