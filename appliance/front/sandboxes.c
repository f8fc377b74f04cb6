#include <errno.h>
#include <string.h>

#include "handlers.h"
#include "respond.h"

enum {
	METADATA_MAX = 64 * 1024, /* kept in the row and shown by every list */
};

static const char *const engines[] = { "auto", "kvm", "tcg", "jail", NULL };
static const char *const timeouts[] = { "kill", "pause", NULL };
static const char *const states[] = { "creating", "running", "paused", "ending", "ended", NULL };

struct create_body {
	const char *template_name, *engine, *snapshot, *on_timeout;
	unsigned timeout_s;
	struct limits limits;
	json_t *env, *metadata, *auto_resume;
};

#define AT(member) offsetof(struct create_body, member)
static const struct field limits_fields[] = {
#define LIMIT(name, type, least, most, ...) { #name, FIELD_##type, AT(limits.name), least, most },
#include "link/limits.def"
#undef LIMIT
	{ .type = FIELD_END },
};
static const struct field create_fields[] = {
	{ "template", FIELD_STRING, AT(template_name), 1,
	  sizeof(((struct sandbox_spec *)NULL)->template_name) - 1 },
	{ "engine", FIELD_STRING, AT(engine), 1, 15, .choices = engines },
	{ "snapshot", FIELD_STRING, AT(snapshot), 1, STORE_ID_MAX - 1 },
	{ "timeout_s", FIELD_WHOLE, AT(timeout_s), 1, TIMEOUT_S_MAX },
	{ "on_timeout", FIELD_STRING, AT(on_timeout), 1, 15, .choices = timeouts },
	{ "auto_resume", FIELD_BOOL, AT(auto_resume) },
	{ "env", FIELD_ENV, AT(env), 0, ENV_MAX },
	{ "metadata", FIELD_OBJECT, AT(metadata), 0, METADATA_MAX },
	{ "limits", FIELD_TABLE, .table = limits_fields },
	{ .type = FIELD_END },
};
#undef AT

static int create(struct request *r, const struct create_body *b, json_t *none, struct fault *f)
{
	struct sandbox_spec spec = {
		.timeout_s = b->timeout_s,
		.limits = b->limits,
		.env = b->env ? b->env : none,
		.metadata = b->metadata ? b->metadata : none,
		.snapshot = b->snapshot,
		.pause_on_timeout = strcmp(b->on_timeout, "pause") == 0,
		.auto_resume = json_is_true(b->auto_resume),
	};
	json_t *sandbox;
	int err;

	strncpy(spec.template_name, b->template_name, sizeof(spec.template_name) - 1);
	strncpy(spec.engine, b->engine, sizeof(spec.engine) - 1);
	err = core_sandbox_create(r->core, r->owner, &spec, &sandbox, f);
	return err ? err : respond_json(r, 201, sandbox, f);
}

int sandboxes_create(struct request *r, struct fault *f)
{
	struct create_body b = {
		.template_name = r->settings->template_name,
		.engine = "auto",
		.on_timeout = "kill",
		.timeout_s = 300,
	};
	int err = request_fields(r, create_fields, &b, f);
	json_t *none = json_object();

	/* What was saved has both already. */
	if (!err && b.snapshot && (json_object_get(r->body, "template") || json_object_get(r->body, "limits")))
		err = fault_field(f, "conflicting_fields", "snapshot",
				  "Give snapshot without template and limits: they are the snapshot's.");
	if (!err)
		err = create(r, &b, none, f);
	json_decref(none);
	return err;
}

static int query_state(struct request *r, const char **ret, struct fault *f)
{
	int err = target_query(&r->target, "state", ret, f);

	if (err || !*ret)
		return err;
	for (const char *const *s = states; *s; s++)
		if (!strcmp(*s, *ret))
			return 0;
	return fault_field(f, "out_of_range", "state",
			   "state must be one of creating, running, paused, ending, ended.");
}

int list_window(struct request *r, unsigned *ret_limit, const char **ret_cursor, struct fault *f)
{
	uint64_t limit;
	int err = target_query_number(&r->target, "limit", 1, LIST_LIMIT_MAX, LIST_LIMIT_DEFAULT, &limit, f);

	if (!err)
		err = target_query(&r->target, "cursor", ret_cursor, f);
	if (!err)
		*ret_limit = (unsigned)limit;
	return err;
}

int store_fault(struct fault *f, int err, const char *noun)
{
	if (err == -ENOENT)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such %s.", noun);
	if (err == -EINVAL)
		return fault_field(f, "bad_cursor", "cursor", "This cursor is not one that a list gave.");
	if (err == -EAGAIN)
		return fault_set(f, EAGAIN, 503, "starting",
				 "This %s is being taken up again; try again in a moment.", noun);
	return fault_set(f, -err, 500, "store_failed", "The store could not be read: %s.", strerror(-err));
}

int history_fault(struct request *r, struct fault *f, int err, const char *noun)
{
	unsigned days = r->settings->history_days, mb = 0;

	if (err != -ENOENT || store_owner_history(r->store, r->owner, &days, &mb) < 0)
		return store_fault(f, err, noun);
	return fault_set(f, ENOENT, 404, "not_found", "There is no such %s. History is kept %u days at most.", noun, days);
}

int sandboxes_list(struct request *r, struct fault *f)
{
	const char *state, *template_name, *cursor;
	unsigned limit;
	json_t *list;
	int err = query_state(r, &state, f);

	if (!err)
		err = target_query(&r->target, "template", &template_name, f);
	if (!err)
		err = list_window(r, &limit, &cursor, f);
	if (err)
		return err;
	err = store_sandbox_list(r->store, r->owner, state, template_name, limit, cursor, &list);
	return err ? store_fault(f, err, "sandbox") : respond_json(r, 200, list, f);
}

int sandboxes_get(struct request *r, struct fault *f)
{
	json_t *sandbox;
	int err = store_sandbox_get(r->store, r->owner, r->id, &sandbox);

	return err ? history_fault(r, f, err, "sandbox") : respond_json(r, 200, sandbox, f);
}

int sandboxes_timeout(struct request *r, struct fault *f)
{
	static const struct field fields[] = {
		{ "timeout_s", FIELD_WHOLE, 0, 1, TIMEOUT_S_MAX, .required = true },
		{ .type = FIELD_END },
	};
	unsigned timeout_s = 0;
	json_t *sandbox;
	int err = request_fields(r, fields, &timeout_s, f);

	if (!err)
		err = core_sandbox_timeout(r->core, r->owner, r->id, timeout_s, &sandbox, f);
	return err ? err : respond_json(r, 200, sandbox, f);
}

int sandboxes_delete(struct request *r, struct fault *f)
{
	int err = core_sandbox_delete(r->core, r->owner, r->id, f);

	return err ? err : respond_empty(r, 204);
}
