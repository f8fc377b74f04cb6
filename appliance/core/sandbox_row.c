/* A sandbox as its row and as the REST face shows it. */
#include <stdio.h>
#include <string.h>

#include "sandbox.h"
#include "times.h"

static json_t *limits_json(const struct sandbox *sb)
{
	return json_pack("{s:i,s:f,s:i}", "memory_mb", (int)sb->memory_mb, "cpus", sb->cpus, "disk_mb",
			 (int)sb->disk_mb);
}

void sandbox_row_add(const struct sandbox *sb, struct store_txn *t)
{
	struct sandbox_row row = {
		.state = sandbox_state_name(sb->state),
		.engine = engine_ops_of(sb->core->engine)->name,
		.template_name = sb->template_name,
		.image = sb->core->image.hash,
		.started = sb->started,
		.end_reason = sb->reason[0] ? sb->reason : NULL,
		.message = sb->message[0] ? sb->message : NULL,
		.created_ms = sb->created_ms,
		.deadline_ms = sb->deadline_ms,
		.ended_ms = sb->ended_ms,
		.limits = limits_json(sb),
		.metadata = sb->metadata,
		.env = sb->env,
	};

	memcpy(row.id, sb->id, sizeof(row.id));
	memcpy(row.owner_id, sb->owner, sizeof(row.owner_id));
	store_txn_sandbox(t, &row);
	json_decref(row.limits);
}

void sandbox_store(struct sandbox *sb, void (*done)(int err, const char *message, void *arg), void *arg)
{
	struct store_txn *t = store_txn_new(sb->core->store);

	sandbox_row_add(sb, t);
	store_txn_submit(t, done, arg);
}

json_t *sandbox_json(const struct sandbox *sb)
{
	char created[TIME_SIZE], deadline[TIME_SIZE], ended[TIME_SIZE];
	json_t *json;

	time_format(sb->created_ms, created);
	time_format(sb->deadline_ms, deadline);
	time_format(sb->ended_ms, ended);
	json = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s?,s:s,s:s,s:o,s:O}", "id", sb->id, "state",
			 sandbox_state_name(sb->state), "engine", engine_ops_of(sb->core->engine)->name,
			 "template", sb->template_name, "image", sb->core->image.hash, "started", sb->started,
			 "created_at", created, "deadline", deadline, "limits", limits_json(sb), "metadata",
			 sb->metadata);
	if (sb->reason[0])
		json_object_set_new(json, "end_reason", json_string(sb->reason));
	if (sb->message[0])
		json_object_set_new(json, "message", json_string(sb->message));
	if (sb->ended_ms)
		json_object_set_new(json, "ended_at", json_string(ended));
	return json;
}
