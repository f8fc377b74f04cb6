/* The run: code to the kernel, what it says of its end, every other way to end. */
#include "execution.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell_env.h"
#include "client.h"
#include "instant.h"
#include "kernel.h"

/* Asked not to count: no execute_input comes, and the kernel's count stays. */
static bool is_silent(const struct execution *e)
{
	json_t *content = json_object_get(e->asked, "content");

	return json_is_true(json_object_get(content, "silent")) ||
	       json_is_false(json_object_get(content, "store_history"));
}

void execution_started(struct execution *e, int64_t count)
{
	json_t *fields;

	if (e->started)
		return;
	/* Its own message was lost, or something else came first: kernels count by ones. */
	if (count < 0)
		count = e->kernel->execution_count + (is_silent(e) ? 0 : 1);
	e->started = e->changed = true;
	e->execution_count = e->kernel->execution_count = count;
	fields = json_pack("{s:s,s:I}", "execution_id", e->id, "execution_count", (json_int_t)count);
	e->kernel_restarted = e->kernel->restarted;
	e->kernel->restarted = false;
	if (e->kernel_restarted)
		json_object_set_new(fields, "kernel_restarted", json_true());
	events_add(&e->events, "started", fields);
}

void execution_arm(struct execution *e, int64_t ran_ms)
{
	int64_t left = (int64_t)e->timeout_s * 1000 - ran_ms;

	if (e->timeout_s)
		hub_timer_set(e->timer, left > 0 ? (uint64_t)left : 1);
}

/* Sends one request unless an earlier carreld did. */
static int execution_send_one(struct execution *e, unsigned n, const char *suffix, json_t *content)
{
	char id[STORE_ID_MAX + 16];
	int64_t seq;

	if (n < e->frames_sent)
		return 0;
	if (!content)
		return -ENOMEM;
	snprintf(id, sizeof(id), "%s%s", e->id, suffix);
	seq = e->asked ? kernel_send_asked(e->kernel, e->asked, content)
		       : kernel_send(e->kernel, id, "execute_request", content);
	if (seq < 0)
		return (int)seq;
	e->frames_sent = n + 1;
	if (!suffix[0])
		e->sent_seq = (uint64_t)seq;
	return 0;
}

/* As it was asked for, but that the queue is stopped here and not in the kernel. */
static json_t *asked_content(const struct execution *e)
{
	json_t *content = json_copy(json_object_get(e->asked, "content"));

	json_object_set_new(content, "code", json_string(e->code));
	json_object_set_new(content, "stop_on_error", json_false());
	return content;
}

/* One request, or three where the cell has an environment of its own: the shell
 * channel is served in order, so nothing has to be waited for in between. */
static int execution_send(struct execution *e)
{
	json_t *content = e->asked ? asked_content(e) : jupyter_execute_content(e->code, false);
	json_t *before = NULL, *after = NULL;
	bool env = json_object_size(e->env) > 0;
	int err = 0;

	if (env) {
		before = cell_env_set(e->env, e->kernel->language);
		after = cell_env_restore(e->kernel->language);
		err = execution_send_one(e, 0, "-env", before);
	}
	if (!err)
		err = execution_send_one(e, env ? 1 : 0, "", content);
	if (!err && env)
		err = execution_send_one(e, 2, "-env-end", after);
	json_decref(content);
	json_decref(before);
	json_decref(after);
	return err;
}

static void probe_id(const struct execution *e, char ret[STORE_ID_MAX + 16])
{
	snprintf(ret, STORE_ID_MAX + 16, "%s-probe", e->id);
}

void execution_probe(struct execution *e)
{
	char id[STORE_ID_MAX + 16];
	json_t *content = json_object();

	probe_id(e, id);
	/* The shell channel is served in order. */
	if (content && kernel_send(e->kernel, id, "kernel_info_request", content) > 0)
		e->doubtful = true;
	json_decref(content);
}

bool execution_is_missing(const struct execution *e, const struct jupyter_msg *m)
{
	char id[STORE_ID_MAX + 16];

	if (!e->doubtful || e->seen || m->type != JUPYTER_STATUS || strcmp(m->text, "idle") != 0)
		return false;
	probe_id(e, id);
	return strcmp(m->parent_id, id) == 0;
}

unsigned execution_frames(const struct execution *e)
{
	return json_object_size(e->env) > 0 ? 3 : 1;
}

int execution_start(struct execution *e)
{
	int err = execution_send(e);

	if (err < 0)
		return err;
	instant(INSTANT_EXECUTE_SENT);
	free(e->code);
	e->code = NULL;
	e->state = EXECUTION_RUNNING;
	strcpy(e->status, "running");
	e->started_ms = unix_ms();
	e->began_mono_ms = mono_ms();
	/* Stored with the first frame that comes back: what the agent has of a queue
	 * is found out after a restart. */
	e->changed = true;
	execution_arm(e, 0);
	return 0;
}

void execution_stop(struct execution *e, enum execution_stop why)
{
	e->stop = why;
	kernel_interrupt(e->kernel);
	hub_timer_set(e->timer, KERNEL_INTERRUPT_GRACE_MS);
}

/* What the kernel said about the end, and what was asked of it, as one word. */
static const char *end_status(const struct execution *e)
{
	if (e->stop == STOP_TIMEOUT)
		return "timeout";
	if (e->stop == STOP_OUTPUT)
		return "interrupted";
	if (strcmp(e->status, "ok") == 0)
		return "ok";
	if (strcmp(e->status, "error") == 0)
		return e->stop == STOP_INTERRUPT ? "interrupted" : "error";
	return "cancelled"; /* "aborted" in Jupyter's words */
}

static void execution_replied(struct execution *e, const struct jupyter_msg *m)
{
	const char *word = strcmp(m->text, "ok") == 0 || strcmp(m->text, "error") == 0 ? m->text : "aborted";

	snprintf(e->status, sizeof(e->status), "%s", word);
	e->replied = true;
	if (e->asked && strcmp(word, "error") == 0)
		client_execution_failed(e);
}

void execution_message(struct execution *e, const struct jupyter_msg *m)
{
	if (m->type == JUPYTER_EXECUTE_REPLY)
		execution_replied(e, m);
	else if (m->type != JUPYTER_STATUS)
		execution_output(e, m);
	else if (strcmp(m->text, "idle") == 0)
		e->idle = true;
	if (e->replied && e->idle)
		execution_end(e, end_status(e), e->stop == STOP_OUTPUT ? REASON_OUTPUT_LIMIT : NULL);
}

void execution_gap(struct execution *e, uint64_t frames, uint64_t bytes)
{
	kernel_txn(e->kernel);
	e->changed = true;
	execution_started(e, -1);
	events_add(&e->events, "gap",
		   json_pack("{s:I,s:I}", "messages", (json_int_t)frames, "bytes", (json_int_t)bytes));
}

/* A word from the guest that goes into rows and to people. */
static void word_copy(char *to, size_t size, json_t *word)
{
	const char *text = json_string_value(word);
	size_t i, n = 0;

	for (i = 0; text && text[i] && n + 1 < size; i++) {
		if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
		    (text[i] >= '0' && text[i] <= '9') || strchr("-_()", text[i]))
			to[n++] = text[i];
	}
	to[n] = '\0';
}

void execution_died(struct execution *e, json_t *death)
{
	json_t *code = json_object_get(death, "exit_code"), *crash = json_object_get(death, "crash");
	struct store_txn *t = kernel_txn(e->kernel);

	if (e->stop == STOP_TIMEOUT) {
		execution_end(e, "timeout", "killed");
		return;
	}
	if (e->stop == STOP_OUTPUT) {
		execution_end(e, "died", REASON_OUTPUT_LIMIT);
		return;
	}
	if (e->stop == STOP_RESTART) {
		execution_end(e, "died", REASON_KERNEL_RESTARTED);
		return;
	}
	if (json_is_integer(code))
		e->exit_code = (int)(json_integer_value(code) & 0xff);
	word_copy(e->signal, sizeof(e->signal), json_object_get(death, "signal"));
	word_copy(e->reason, sizeof(e->reason), json_object_get(death, "reason"));
	execution_started(e, -1);
	if (json_string_length(crash) > 0) {
		execution_stream(e, t, "stderr", json_string_value(crash), json_string_length(crash));
		client_execution_text(e, json_string_value(crash));
	}
	execution_end(e, "died", e->reason[0] ? e->reason : NULL);
}

static void end_event(struct execution *e)
{
	json_t *fields =
		json_pack("{s:s,s:I}", "status", e->status, "duration_ms", (json_int_t)e->duration_ms);

	if (e->reason[0])
		json_object_set_new(fields, "reason", json_string(e->reason));
	if (e->exit_code >= 0)
		json_object_set_new(fields, "exit_code", json_integer(e->exit_code));
	if (e->signal[0])
		json_object_set_new(fields, "signal", json_string(e->signal));
	/* No event before has told it. */
	if (e->events.seq == 0)
		json_object_set_new(fields, "execution_id", json_string(e->id));
	events_add(&e->events, "end", fields);
}

void execution_end(struct execution *e, const char *status, const char *reason)
{
	struct kernel *k = e->kernel;

	if (e->state == EXECUTION_ENDED)
		return;
	hub_timer_stop(e->timer);
	/* It may have ended its kernel, or lost it, before a word about it came. */
	if (e->state == EXECUTION_RUNNING)
		execution_started(e, -1);
	snprintf(e->status, sizeof(e->status), "%s", status);
	if (reason && reason != e->reason)
		snprintf(e->reason, sizeof(e->reason), "%s", reason);
	e->ended_ms = unix_ms();
	tally_add(&e->core->executions, status);
	outputs_close(&e->outputs, kernel_txn(k), &e->events);
	if (e->stop == STOP_OUTPUT)
		events_add(&e->events, "truncated",
			   json_pack("{s:s,s:I,s:I}", "stream", "all", "bytes_total", (json_int_t)e->output_bytes,
				     "bytes_kept", (json_int_t)e->output_kept));
	e->end_at = e->events.lines.len;
	e->said_seq = e->events.seq;
	e->said_bytes = e->events.bytes;
	e->duration_ms = e->began_mono_ms ? mono_ms() - e->began_mono_ms : 0;
	end_event(e);
	e->changed = true;
	e->state = EXECUTION_ENDED;
	if (e->asked)
		client_execution_ended(e);
	kernel_finished(k, e);
}

void execution_timer(void *arg)
{
	struct execution *e = arg;
	struct kernel *k = e->kernel;

	if (e->state != EXECUTION_RUNNING)
		return;
	if (e->stop != STOP_TIMEOUT && e->stop != STOP_OUTPUT) {
		execution_stop(e, STOP_TIMEOUT);
		kernel_unpause(k);
	} else if (!e->spent_grace) {
		e->spent_grace = true;
		kernel_restart(k);
		hub_timer_set(e->timer, KERNEL_KILL_GRACE_MS);
	} else {
		sandbox_end(k->sandbox, REASON_PROTOCOL,
			    "The sandbox's agent did not end a kernel that ran past its limit.");
	}
}

void execution_hold(struct execution *e)
{
	hub_timer_stop(e->timer);
	e->ran_ms = e->began_mono_ms ? mono_ms() - e->began_mono_ms : 0;
}

void execution_go_on(struct execution *e, int64_t stood_ms)
{
	e->began_mono_ms = mono_ms() - e->ran_ms;
	e->paused_ms += stood_ms > 0 ? stood_ms : 0;
	e->changed = true;
	kernel_txn(e->kernel);
	if (e->stop == STOP_TIMEOUT || e->stop == STOP_OUTPUT)
		hub_timer_set(e->timer, e->spent_grace ? KERNEL_KILL_GRACE_MS : KERNEL_INTERRUPT_GRACE_MS);
	else
		execution_arm(e, e->ran_ms);
}

void execution_progress(void *arg)
{
	struct execution *e = arg;

	if (e->kernel)
		kernel_unpause(e->kernel);
}

/* The end event apart from what comes before it: readers get it only after the commit. */
static void execution_flush_lines(struct execution *e, struct store_txn *t)
{
	const char *lines = e->events.lines.bytes;
	size_t len = e->events.lines.len;

	/* A log that takes no more: the row alone says how it ended. */
	if (len == 0)
		return;
	if (e->state != EXECUTION_ENDED)
		store_txn_log(t, e->log, lines, len, e->events.seq, false);
	if (e->state == EXECUTION_ENDED) {
		if (e->end_at > 0)
			store_txn_log(t, e->log, lines, e->end_at, e->events.seq - 1, false);
		store_txn_log(t, e->log, lines + e->end_at, len - e->end_at, e->events.seq, true);
	}
	events_taken(&e->events);
}

void execution_flush(struct execution *e, struct store_txn *t)
{
	struct execution_row row = { .status = e->status,
				     .code = e->state == EXECUTION_COMMITTING ? e->code : NULL };

	outputs_flush(&e->outputs, t);
	execution_flush_lines(e, t);
	/* While the kernel replied and is not idle yet the row says what clients see. */
	if (e->state == EXECUTION_RUNNING)
		row.status = "running";
	memcpy(row.id, e->id, sizeof(row.id));
	memcpy(row.sandbox_id, e->sandbox_id, sizeof(row.sandbox_id));
	memcpy(row.kernel_id, e->kernel_id, sizeof(row.kernel_id));
	row.reason = e->reason[0] ? e->reason : NULL;
	row.signal = e->signal[0] ? e->signal : NULL;
	row.exit_code = e->exit_code;
	row.execution_count = e->execution_count;
	row.queued_ms = e->queued_ms;
	row.started_ms = e->started_ms;
	row.ended_ms = e->ended_ms;
	row.timeout_ms = (int64_t)e->timeout_s * 1000;
	row.paused_ms = e->paused_ms;
	row.kernel_restarted = e->kernel_restarted;
	row.last_seq = e->events.seq;
	row.log_bytes = e->events.bytes;
	row.env = e->state == EXECUTION_COMMITTING ? e->env : NULL;
	row.asked = e->state == EXECUTION_COMMITTING ? e->asked : NULL;
	row.sent_seq = e->sent_seq;
	store_txn_execution(t, &row);
	e->changed = false;
}

void execution_end_again(struct execution *e, struct store_txn *t)
{
	struct xlog_position at;

	xlog_position(e->log, &at);
	events_taken(&e->events);
	e->events.seq = at.last_seq;
	e->events.bytes = at.size;
	/* Whoever reads "ok" takes what was printed for all of it. */
	if (at.last_seq < e->said_seq && strcmp(e->status, "died") != 0 &&
	    strcmp(e->status, "cancelled") != 0) {
		strcpy(e->status, "died");
		snprintf(e->reason, sizeof(e->reason), "%s",
			 e->lost == -ENOSPC ? REASON_DISK_FULL : REASON_STORE_FAILED);
	}
	if (!at.failed && at.last_seq < e->said_seq)
		events_add(&e->events, "truncated",
			   json_pack("{s:s,s:I,s:I}", "stream", "events", "bytes_total",
				     (json_int_t)e->said_bytes, "bytes_kept", (json_int_t)at.size));
	e->end_at = e->events.lines.len;
	if (!at.failed)
		end_event(e);
	execution_flush(e, t);
}
