/* A sandbox as its row and as the REST face shows it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/audit.h"
#include "life.h"
#include "sandbox.h"
#include "times.h"

void sandbox_row_add(const struct sandbox *sb, struct store_txn *t)
{
	char base[BASE_TEXT_MAX];
	struct sandbox_row row = {
		.state = sandbox_state_name(sb->state),
		.engine = engine_ops_of(sb->engine)->name,
		.template_name = sb->template_name,
		.image = sb->image,
		.started = sb->started,
		.end_reason = sb->reason[0] ? sb->reason : NULL,
		.message = sb->message[0] ? sb->message : NULL,
		.created_ms = sb->created_ms,
		.deadline_ms = sb->deadline_ms,
		.ended_ms = sb->ended_ms,
		.limits = limits_json(&sb->limits),
		.metadata = sb->metadata,
		/* Secrets of what is over are of no use to anybody. */
		.env = sb->state == SANDBOX_ENDED ? NULL : sb->env,
		.timeout_ms = (int64_t)sb->timeout_s * 1000,
		.on_timeout = sb->pause_on_timeout ? "pause" : "kill",
		.auto_resume = sb->auto_resume,
		.paused_ms = sb->paused_ms,
	};

	base_text(&sb->base, base);
	row.base = base[0] ? base : NULL;
	memcpy(row.id, sb->id, sizeof(row.id));
	memcpy(row.owner_id, sb->owner, sizeof(row.owner_id));
	store_txn_sandbox(t, &row);
	json_decref(row.limits);
}

void sandbox_end_add(struct sandbox *sb, struct store_txn *t)
{
	json_t *detail = json_pack("{s:s}", "reason", sb->reason);

	sandbox_row_add(sb, t);
	store_txn_kernels_gone(t, sb->id);
	usage_end(sb, t);
	store_txn_audit_by(t, NULL, sb->owner, sb->id, "sandbox_end", "ok", detail);
	json_decref(detail);
}

json_t *sandbox_end_fields(const struct sandbox *sb)
{
	char ended[TIME_SIZE];
	json_t *fields =
		json_pack("{s:s,s:s}", "state", sandbox_state_name(sb->state), "end_reason", sb->reason);

	if (sb->message[0])
		json_object_set_new(fields, "message", json_string(sb->message));
	if (sb->ended_ms) {
		time_format(sb->ended_ms, ended);
		json_object_set_new(fields, "ended_at", json_string(ended));
	}
	return fields;
}

void sandbox_store(struct sandbox *sb, void (*done)(int err, const char *message, void *arg), void *arg)
{
	struct store_txn *t = store_txn_new(sb->core->store);

	sandbox_row_add(sb, t);
	store_txn_submit(t, done, arg);
}

struct row_commit {
	struct hub_item item;
	struct core *core;
	char id[STORE_ID_MAX];
	void (*done)(struct sandbox *sb, int err, const char *message);
	int err;
	char message[256];
};

static void row_committed(void *arg)
{
	struct row_commit *commit = arg;
	struct sandbox *sb = sandbox_find(commit->core, NULL, commit->id);

	if (sb)
		commit->done(sb, commit->err, commit->message);
	free(commit);
}

/* On the writer's thread. */
static void on_row_commit(int err, const char *message, void *arg)
{
	struct row_commit *commit = arg;

	commit->err = err;
	snprintf(commit->message, sizeof(commit->message), "%s", message ? message : "");
	hub_post(commit->core->hub, &commit->item, row_committed, commit);
}

void sandbox_submit(struct sandbox *sb, struct store_txn *t,
		    void (*done)(struct sandbox *sb, int err, const char *message))
{
	struct row_commit *commit = calloc(1, sizeof(*commit));

	/* Nobody could be told whether it is stored, so nothing can go on. */
	if (!commit)
		abort();
	*commit = (struct row_commit){ .core = sb->core, .done = done };
	memcpy(commit->id, sb->id, sizeof(commit->id));
	store_txn_submit(t, on_row_commit, commit);
}

void sandbox_commit(struct sandbox *sb, const char *action,
		    void (*done)(struct sandbox *sb, int err, const char *message))
{
	struct store_txn *t = store_txn_new(sb->core->store);

	sandbox_row_add(sb, t);
	usage_account(sb, t);
	store_txn_audit_by(t, life_asker(sb), sb->owner, sb->id, action, "ok", NULL);
	sandbox_submit(sb, t, done);
}

json_t *sandbox_json(const struct sandbox *sb)
{
	char created[TIME_SIZE], deadline[TIME_SIZE], ended[TIME_SIZE];
	json_t *json;

	time_format(sb->created_ms, created);
	time_format(sb->deadline_ms, deadline);
	time_format(sb->ended_ms, ended);
	json = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s?,s:s,s:s,s:o,s:O}", "id", sb->id, "state",
			 sandbox_state_name(sb->state), "engine", engine_ops_of(sb->engine)->name,
			 "template", sb->template_name, "image", sb->image, "started", sb->started,
			 "created_at", created, "deadline", deadline, "limits", limits_json(&sb->limits), "metadata",
			 sb->metadata);
	if (sb->reason[0])
		json_object_set_new(json, "end_reason", json_string(sb->reason));
	if (sb->message[0])
		json_object_set_new(json, "message", json_string(sb->message));
	if (sb->ended_ms)
		json_object_set_new(json, "ended_at", json_string(ended));
	if (sb->pause_on_timeout)
		json_object_set_new(json, "on_timeout", json_string("pause"));
	if (sb->auto_resume)
		json_object_set_new(json, "auto_resume", json_true());
	if (sb->paused_ms) {
		time_format(sb->paused_ms, created);
		json_object_set_new(json, "paused_at", json_string(created));
	}
	return json;
}
