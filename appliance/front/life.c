/* Pause, resume, fork, snapshots. */
#include <errno.h>

#include "handlers.h"
#include "respond.h"

enum {
	COPIES_MAX = 16,        /* reference v1 */
	SNAPSHOT_NAME_MAX = 128,
};

static const struct field no_fields[] = { { .type = FIELD_END } };

int life_pause(struct request *r, struct fault *f)
{
	json_t *sandbox;
	int err = request_fields(r, no_fields, NULL, f);

	if (!err)
		err = core_sandbox_pause(r->core, r->owner, r->id, &sandbox, f);
	return err ? err : respond_json(r, 200, sandbox, f);
}

int life_resume(struct request *r, struct fault *f)
{
	static const struct field fields[] = {
		{ "timeout_s", FIELD_WHOLE, 0, 1, TIMEOUT_S_MAX },
		{ .type = FIELD_END },
	};
	unsigned timeout_s = 0;
	json_t *sandbox;
	int err = request_fields(r, fields, &timeout_s, f);

	if (!err)
		err = core_sandbox_resume(r->core, r->owner, r->id, timeout_s, &sandbox, f);
	return err ? err : respond_json(r, 200, sandbox, f);
}

struct fork_body {
	unsigned count, timeout_s;
};

int life_fork(struct request *r, struct fault *f)
{
	static const struct field fields[] = {
		{ "count", FIELD_WHOLE, offsetof(struct fork_body, count), 1, COPIES_MAX },
		{ "timeout_s", FIELD_WHOLE, offsetof(struct fork_body, timeout_s), 1, TIMEOUT_S_MAX },
		{ .type = FIELD_END },
	};
	struct fork_body b = { .count = 1 };
	json_t *sandboxes;
	int err = request_fields(r, fields, &b, f);

	if (!err)
		err = core_sandbox_fork(r->core, r->owner, r->id, b.count, b.timeout_s, &sandboxes, f);
	return err ? err : respond_json(r, 201, sandboxes, f);
}

int snapshots_create(struct request *r, struct fault *f)
{
	static const struct field fields[] = {
		{ "name", FIELD_STRING, 0, 1, SNAPSHOT_NAME_MAX },
		{ .type = FIELD_END },
	};
	const char *name = NULL;
	json_t *snapshot;
	int err = request_fields(r, fields, &name, f);

	if (!err)
		err = core_snapshot_create(r->core, r->owner, r->id, name, &snapshot, f);
	return err ? err : respond_json(r, 201, snapshot, f);
}

int snapshots_list(struct request *r, struct fault *f)
{
	const char *cursor;
	unsigned limit;
	json_t *list;
	int err = list_window(r, &limit, &cursor, f);

	if (err)
		return err;
	err = store_snapshot_list(r->store, r->owner, limit, cursor, &list);
	return err ? store_fault(f, err, "snapshot") : respond_json(r, 200, list, f);
}

int snapshots_get(struct request *r, struct fault *f)
{
	json_t *snapshot;
	int err = store_snapshot_get(r->store, r->owner, r->id, &snapshot);

	if (err)
		return store_fault(f, err, "snapshot");
	json_object_del(snapshot, "env");
	return respond_json(r, 200, snapshot, f);
}

int snapshots_delete(struct request *r, struct fault *f)
{
	int err = core_snapshot_delete(r->core, r->owner, r->id, f);

	return err ? err : respond_empty(r, 204);
}
