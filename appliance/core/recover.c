/* Reconciles at the start: rows with their machines or files, executions with their logs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engines.h"
#include "images.h"
#include "kernel.h"
#include "life.h"
#include "process.h"
#include "sandbox.h"
#include "template.h"
#include "times.h"

static const char *text_of(json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text ? text : "";
}

static int64_t number_of(json_t *row, const char *key)
{
	return json_integer_value(json_object_get(row, key));
}

/* --- executions --- */

/* Of all that was taken; what an output past the bound on rows held is not known any more. */
static uint64_t bytes_of(json_t *outputs)
{
	uint64_t bytes = 0;
	json_t *row;
	size_t i;

	json_array_foreach(outputs, i, row)
		bytes += (uint64_t)number_of(row, "bytes");
	return bytes;
}

static struct execution *execution_from(struct kernel *k, json_t *row, struct xlog *log)
{
	struct execution *e = execution_new(k, text_of(row, "id"), log);
	json_t *outputs = NULL;

	if (!e)
		return NULL;
	snprintf(e->kernel_id, sizeof(e->kernel_id), "%s", text_of(row, "kernel_id"));
	e->code = strdup(text_of(row, "code"));
	e->env = json_incref(json_object_get(row, "env"));
	if (json_is_object(json_object_get(row, "asked")))
		execution_asked(e, json_object_get(row, "asked"));
	e->timeout_s = (unsigned)(number_of(row, "timeout_ms") / 1000);
	e->queued_ms = number_of(row, "queued_ms");
	e->started_ms = number_of(row, "started_ms");
	e->paused_ms = number_of(row, "paused_ms");
	e->execution_count = number_of(row, "execution_count");
	e->kernel_restarted = json_is_true(json_object_get(row, "kernel_restarted"));
	e->events.seq = (uint64_t)number_of(row, "last_seq");
	e->events.bytes = (uint64_t)number_of(row, "log_bytes");
	if (store_outputs(k->core->store, e->id, &outputs) == 0)
		outputs_restore(&e->outputs, outputs);
	e->output_bytes = e->output_kept = bytes_of(outputs);
	json_decref(outputs);
	return e;
}

static void execution_resume(struct kernel *k, struct execution *e, json_t *row)
{
	bool running = strcmp(text_of(row, "status"), "running") == 0;
	/* A paused one ran until then. */
	int64_t until = k->sandbox->paused_ms ? k->sandbox->paused_ms : unix_ms();
	int64_t ran = running ? until - e->started_ms - e->paused_ms : 0;

	if (!running) {
		kernel_queue_restored(k, e);
		return;
	}
	/* Rows of older versions do not say where its frames stand: they were the last then. */
	e->state = EXECUTION_RUNNING;
	strcpy(e->status, "running");
	e->started = e->execution_count >= 0;
	e->sent_seq = (uint64_t)number_of(row, "sent_seq");
	if (!e->sent_seq)
		e->sent_seq = channel_sent(k->channel) - (execution_frames(e) > 1 ? 1 : 0);
	e->began_mono_ms = mono_ms() - ran;
	e->ran_ms = ran;
	k->running = e;
	if (!k->sandbox->held)
		execution_arm(e, ran);
}

/* The kernel that the row names. Without a row of its own, its start was under way: started again. */
static struct kernel *kernel_of_row(struct sandbox *sb, const char *id)
{
	json_t *languages = json_object_get(sb->from->recipe, "languages");
	char default_id[STORE_ID_MAX], agent_id[STORE_ID_MAX];
	const char *language = kernel_language(sb->from, NULL);
	struct kernel *k = kernel_find(sb, id);
	size_t i;

	for (i = 0; !k && language; i++) {
		kernel_default_ids(sb, language, default_id, agent_id);
		if (strcmp(default_id, id) == 0)
			k = kernel_new(sb, id, agent_id, language, false);
		language = json_string_value(json_array_get(languages, i));
	}
	return k;
}

/* What cannot go on is not left looking as if it would. */
static void execution_lost(struct sandbox *sb, json_t *row, const char *why)
{
	struct execution_row lost = { .status = "died",
				      .reason = REASON_HOST_RESTART,
				      .exit_code = -1,
				      .execution_count = number_of(row, "execution_count"),
				      .queued_ms = number_of(row, "queued_ms"),
				      .started_ms = number_of(row, "started_ms"),
				      .ended_ms = unix_ms(),
				      .timeout_ms = number_of(row, "timeout_ms"),
				      .paused_ms = number_of(row, "paused_ms"),
				      .kernel_restarted =
					      json_is_true(json_object_get(row, "kernel_restarted")),
				      .last_seq = (uint64_t)number_of(row, "last_seq"),
				      .log_bytes = (uint64_t)number_of(row, "log_bytes") };
	struct store_txn *t = store_txn_new(sb->core->store);

	core_log("execution %s is given up: %s", text_of(row, "id"), why);
	snprintf(lost.id, sizeof(lost.id), "%s", text_of(row, "id"));
	snprintf(lost.sandbox_id, sizeof(lost.sandbox_id), "%s", sb->id);
	snprintf(lost.kernel_id, sizeof(lost.kernel_id), "%s", text_of(row, "kernel_id"));
	store_txn_execution(t, &lost);
	store_txn_submit(t, NULL, NULL);
}

static int executions_recover(struct sandbox *sb, struct fault *f)
{
	struct core *c = sb->core;
	struct execution *e;
	struct kernel *k;
	struct xlog *log;
	json_t *rows = NULL, *row;
	size_t i;
	int err = store_open_executions(c->store, sb->id, &rows);

	if (err < 0)
		return fault_set(f, -err, 500, "store", "The executions of %s cannot be read.", sb->id);
	json_array_foreach(rows, i, row)
	{
		k = kernel_of_row(sb, text_of(row, "kernel_id"));
		if (!k) {
			execution_lost(sb, row, "its kernel is not known");
			continue;
		}
		err = xlog_open(c->settings->state, text_of(row, "id"), false,
				(uint64_t)number_of(row, "log_bytes"), (uint64_t)number_of(row, "last_seq"),
				false, &log);
		e = err < 0 ? NULL : execution_from(k, row, log);
		if (!e) {
			execution_lost(sb, row, err < 0 ? "its event log cannot be opened" : "out of memory");
			continue;
		}
		execution_resume(k, e, row);
	}
	json_decref(rows);
	return 0;
}

/* --- kernels --- */

static int kernels_recover(struct sandbox *sb, struct fault *f)
{
	char default_id[STORE_ID_MAX], default_agent_id[STORE_ID_MAX];
	json_t *rows = NULL, *row;
	struct kernel *k;
	size_t i;
	int err = store_open_kernels(sb->core->store, sb->id, &rows);

	if (err < 0)
		return fault_set(f, -err, 500, "store", "The kernels of %s cannot be read.", sb->id);
	json_array_foreach(rows, i, row)
	{
		const char *id = text_of(row, "id"), *language = text_of(row, "language");
		const char *agent_id = text_of(row, "agent_id");

		kernel_default_ids(sb, language, default_id, default_agent_id);
		if (!agent_id[0])
			agent_id = strcmp(id, default_id) == 0 ? default_agent_id : id;
		/* One that was starting may not have been asked for; if it was, the agent says so. */
		k = kernel_new(sb, id, agent_id, language, strcmp(text_of(row, "state"), "starting") != 0);
		if (!k)
			return fault_set(f, ENOMEM, 500, "internal", "Out of memory.");
		snprintf(k->name, sizeof(k->name), "%s", text_of(row, "name"));
		if (strcmp(text_of(row, "state"), "dead") == 0)
			k->state = KERNEL_DEAD;
		k->execution_count = number_of(row, "execution_count");
		k->restarted = json_is_true(json_object_get(row, "restarted"));
		k->restored = true;
		k->restored_sent = (uint64_t)number_of(row, "sent");
		k->batch_seq = (uint64_t)number_of(row, "received");
		channel_restore(k->channel, k->batch_seq, k->restored_sent);
	}
	json_decref(rows);
	return 0;
}

static int processes_recover(struct sandbox *sb, struct fault *f)
{
	json_t *rows = NULL, *row;
	size_t i;
	int err = store_open_processes(sb->core->store, sb->id, &rows);

	if (err < 0)
		return fault_set(f, -err, 500, "store", "The processes of %s cannot be read.", sb->id);
	json_array_foreach(rows, i, row)
	{
		err = process_restore(sb, text_of(row, "id"));
		if (err < 0)
			break;
	}
	json_decref(rows);
	return err < 0 ? fault_set(f, -err, 500, "internal", "Out of memory.") : 0;
}

/* --- sandboxes --- */

static const char *started_name(const char *text)
{
	static const char *const names[] = { "pool", "boot", "fork", "snapshot" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) == 0)
			return names[i];
	}
	return "clone";
}

static struct sandbox *sandbox_from(struct core *c, struct engine *engine, json_t *row)
{
	struct sandbox *sb = sandbox_new(c, engine, text_of(row, "id"), text_of(row, "owner_id"),
					 json_object_get(row, "env"), json_object_get(row, "metadata"));

	if (!sb)
		return NULL;
	snprintf(sb->template_name, sizeof(sb->template_name), "%s", text_of(row, "template"));
	sb->started = started_name(text_of(row, "started"));
	snprintf(sb->image, sizeof(sb->image), "%s", text_of(row, "image"));
	sb->from = images_hashed(c, sb->image);
	base_parse(text_of(row, "base"), &sb->base);
	sb->timeout_s = (unsigned)(number_of(row, "timeout_ms") / 1000);
	/* Rows of before there was a pause. */
	if (!sb->timeout_s)
		sb->timeout_s = (unsigned)((number_of(row, "deadline_ms") - number_of(row, "created_ms")) / 1000);
	sb->pause_on_timeout = strcmp(text_of(row, "on_timeout"), "pause") == 0;
	sb->auto_resume = json_is_true(json_object_get(row, "auto_resume"));
	sb->paused_ms = number_of(row, "paused_ms");
	limits_read(&sb->limits, json_object_get(row, "limits"));
	template_class(sb->limits.memory_mb, sb->limits.cpus, sb->limits.disk_mb, &sb->cls);
	sb->created_ms = number_of(row, "created_ms");
	sb->identified = sb->kernels_unswept = true;
	usage_recover(sb);
	return sb;
}

static void machine_adopt(struct sandbox *sb)
{
	sb->vm_ended = false;
	sb->adopted = true;
	life_step(sb, LIFE_START);
	if (sandbox_machine_adopt(sb) == 0)
		return;
	sb->vm_ended = true;
	life_step(sb, LIFE_IDLE);
	if (sb->state == SANDBOX_RUNNING)
		sandbox_end(sb, REASON_HOST_RESTART, "Its machine did not outlive the restart.");
}

static bool has_machine(const struct sandbox *sb)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", sb->core->run_dir, sb->id);
	return access(path, F_OK) == 0;
}

static void paused_recover(struct sandbox *sb)
{
	char path[SET_PATH_MAX];

	life_set_path(sb, path);
	if (has_machine(sb)) {
		machine_adopt(sb);
	} else if (!set_intact(path, sb->scratch_path)) {
		sandbox_end(sb, REASON_HOST_RESTART,
			    "What was saved of it is missing, or its disk was written to since it was paused.");
	}
}

static int sandbox_recover(struct core *c, json_t *row, struct fault *f)
{
	const char *state = text_of(row, "state");
	bool paused = strcmp(state, "paused") == 0, running = strcmp(state, "running") == 0;
	struct engine *engine = NULL;
	struct sandbox *sb;
	int err = engines_recorded(c, text_of(row, "engine"), &engine, f);

	if (err < 0)
		return err;
	sb = sandbox_from(c, engine, row);
	if (!sb)
		return fault_set(f, ENOMEM, 500, "internal", "Out of memory.");
	sb->state = paused ? SANDBOX_PAUSED : SANDBOX_RUNNING;
	sb->held = paused;
	sb->halted_ms = unix_ms();
	err = kernels_recover(sb, f);
	if (!err)
		err = executions_recover(sb, f);
	if (!err)
		err = processes_recover(sb, f);
	if (err < 0)
		return err;
	sb->deadline_ms = number_of(row, "deadline_ms");
	if (paused)
		paused_recover(sb);
	else
		machine_adopt(sb);
	if (sb->state <= SANDBOX_PAUSED)
		sandbox_set_deadline(sb, sb->deadline_ms);
	if (sb->state == SANDBOX_RUNNING)
		usage_watch(sb);
	if (!running && !paused)
		sandbox_end(sb,
			    text_of(row, "end_reason")[0] ? text_of(row, "end_reason") : REASON_HOST_RESTART,
			    "Carrel was restarted while it started or ended.");
	return 0;
}

int recover(struct core *c, struct fault *f)
{
	json_t *rows = NULL, *row;
	size_t i;
	int err = store_open_sandboxes(c->store, &rows);

	if (err < 0)
		return fault_set(f, -err, 500, "store", "The sandboxes of before cannot be read: %s.",
				 strerror(-err));
	json_array_foreach(rows, i, row)
	{
		err = sandbox_recover(c, row, f);
		if (err < 0)
			break;
	}
	json_decref(rows);
	return err ? err : recover_sweep(c, f);
}
