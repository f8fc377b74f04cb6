#include <errno.h>
#include <string.h>

#include "../version.h"
#include "handlers.h"
#include "respond.h"

int about_health(struct request *r, struct fault *f)
{
	char why[256] = "";
	bool ready = core_ready(r->core, why, sizeof(why));
	json_t *body = json_pack("{s:s, s:b, s:s}", "status", ready ? "ok" : "starting", "ready", ready,
				 "version", CARREL_VERSION);

	if (!body || (!ready && json_object_set_new(body, "message", json_string(why))))
		return fault_no_memory(f);
	return respond_json(r, 200, body, f);
}

int about_me(struct request *r, struct fault *f)
{
	unsigned quota = 0;
	json_t *owner, *body;
	int err = store_owner_quota(r->store, r->owner, r->settings->sandboxes_per_owner, &quota);

	if (!err)
		err = store_owner_get(r->store, r->owner, &owner);
	if (err)
		return store_fault(f, err, "owner");
	body = json_pack("{s:s, s:O, s:b, s:{s:i}, s:{s:i}}", "id", r->owner, "name",
			 json_object_get(owner, "name"), "admin", (int)r->admin, "quota", "sandboxes",
			 (int)quota, "running", "sandboxes", (int)store_running_count(r->store, r->owner));
	json_decref(owner);
	return body ? respond_json(r, 200, body, f) : fault_no_memory(f);
}

int about_stats(struct request *r, struct fault *f)
{
	unsigned limit, open = front_gate_load(r->front, GATE_STREAM, &limit);
	json_t *stats;
	int err = core_stats(r->core, &stats);

	if (err)
		return fault_set(f, -err, 503, "starting",
				 "There are no figures yet; try again in a moment.");
	json_object_set_new(stats, "streams",
			    json_pack("{s:i, s:i}", "open", (int)open, "limit", (int)limit));
	return respond_json(r, 200, stats, f);
}

int about_templates(struct request *r, struct fault *f)
{
	const char *cursor;
	unsigned limit;
	json_t *list;
	int err = list_window(r, &limit, &cursor, f);

	/* A name is where it goes on. */
	if (!err && cursor && cursor[strspn(cursor, "abcdefghijklmnopqrstuvwxyz0123456789-")])
		err = store_fault(f, -EINVAL, "template");
	if (err)
		return err;
	return core_templates(r->core, cursor && *cursor ? cursor : NULL, limit, &list) ? fault_no_memory(f)
										       : respond_json(r, 200, list, f);
}

int about_template(struct request *r, struct fault *f)
{
	json_t *one;
	int err = core_template(r->core, r->id, &one, f);

	return err ? err : respond_json(r, 200, one, f);
}
