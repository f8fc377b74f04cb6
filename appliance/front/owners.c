/* Owners and keys: an admin's routes. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "handlers.h"
#include "respond.h"
#include "rfc3339.h"

enum {
	NAME_MAX_BYTES = 200, /* shown in lists */
	QUOTA_MAX = 100000,   /* as the setting */
	TIME_MAX_BYTES = 40,
};

#define AT(member) offsetof(struct quota_body, member)
struct quota_body {
	json_t *sandboxes, *history_days, *history_mb;
};
static const struct field quota_fields[] = {
	{ "sandboxes", FIELD_ANY, AT(sandboxes) },
	{ "history_days", FIELD_ANY, AT(history_days) },
	{ "history_mb", FIELD_ANY, AT(history_mb) },
	{ .type = FIELD_END },
};
#undef AT

/* Absent or null: as for everybody. */
static int quota_number(json_t *value, const char *name, int min, int max, int *ret, struct fault *f)
{
	if (!value || json_is_null(value))
		return 0;
	if (!json_is_integer(value))
		return fault_field(f, "wrong_type", name, "%s must be a whole number.", name);
	if (json_integer_value(value) < min || json_integer_value(value) > max)
		return fault_field(f, "out_of_range", name, "%s must be a whole number from %d to %d.", name, min, max);
	*ret = (int)json_integer_value(value);
	return 0;
}

/* quota is a number of sandboxes, or an object with any of the three. */
static int quota_read(json_t *quota, struct owner_quota *ret, struct fault *f)
{
	struct quota_body b = { .sandboxes = NULL };
	int err;

	if (json_is_integer(quota))
		return quota_number(quota, "quota", 0, QUOTA_MAX, &ret->sandboxes, f);
	if (!json_is_object(quota))
		return fault_field(f, "wrong_type", "quota",
				   "quota must be a whole number of sandboxes, or {\"sandboxes\": N, "
				   "\"history_days\": N, \"history_mb\": N}.");
	err = fields_read_in(quota_fields, "quota", quota, &b, f);
	if (!err)
		err = quota_number(b.sandboxes, "quota.sandboxes", 0, QUOTA_MAX, &ret->sandboxes, f);
	if (!err)
		err = quota_number(b.history_days, "quota.history_days", 1, HISTORY_DAYS_MAX, &ret->history_days, f);
	if (!err)
		err = quota_number(b.history_mb, "quota.history_mb", 1, HISTORY_MB_MAX, &ret->history_mb, f);
	return err;
}

static int respond_owner(struct request *r, int status, const char *id, struct fault *f)
{
	json_t *owner;
	int err = store_owner_get(r->store, id, &owner);

	return err ? store_fault(f, err, "owner") : respond_json(r, status, owner, f);
}

int owners_create(struct request *r, struct fault *f)
{
	struct body {
		const char *name;
		json_t *quota;
	} b = { .name = NULL };
	static const struct field fields[] = {
		{ "name", FIELD_STRING, offsetof(struct body, name), 1, NAME_MAX_BYTES, .required = true },
		{ "quota", FIELD_ANY, offsetof(struct body, quota) },
		{ .type = FIELD_END },
	};
	char id[STORE_ID_MAX];
	struct owner_quota quota = { -1, -1, -1 };
	int err = request_fields(r, fields, &b, f);

	if (!err && b.quota)
		err = quota_read(b.quota, &quota, f);
	if (!err)
		err = store_owner_new(r->store, r->owner, b.name, &quota, id, f);
	return err ? err : respond_owner(r, 201, id, f);
}

int owners_change(struct request *r, struct fault *f)
{
	struct body {
		json_t *quota;
	} b = { .quota = NULL };
	static const struct field fields[] = {
		{ "quota", FIELD_ANY, offsetof(struct body, quota), .required = true },
		{ .type = FIELD_END },
	};
	struct owner_quota quota = { -1, -1, -1 };
	int err = request_fields(r, fields, &b, f);

	if (!err)
		err = quota_read(b.quota, &quota, f);
	if (!err)
		err = store_owner_change(r->store, r->owner, r->id, &quota, f);
	return err ? err : respond_owner(r, 200, r->id, f);
}

int owners_list(struct request *r, struct fault *f)
{
	const char *cursor;
	unsigned limit;
	json_t *list;
	int err = list_window(r, &limit, &cursor, f);

	if (err)
		return err;
	err = store_owner_list(r->store, limit, cursor, &list);
	return err ? store_fault(f, err, "owner") : respond_json(r, 200, list, f);
}

static int expiry_read(const char *text, int64_t *ret_ms, struct fault *f)
{
	struct timespec now;
	int64_t ms;

	if (rfc3339_parse(text, &ms))
		return fault_field(f, "bad_time", "expires_at",
				   "expires_at must be a time as in 2027-01-31T23:59:59Z (RFC 3339).");
	clock_gettime(CLOCK_REALTIME, &now);
	if (ms <= now.tv_sec * 1000LL)
		return fault_field(f, "out_of_range", "expires_at", "expires_at must lie in the future.");
	*ret_ms = ms;
	return 0;
}

struct key_body {
	const char *name, *expires_at;
	json_t *admin;
};

static int key_create(struct request *r, const struct key_body *b, json_t *owner, struct fault *f)
{
	/* Keys of the first owner are admin keys, unless it is asked for less. */
	bool admin = b->admin ? json_is_true(b->admin) : json_is_true(json_object_get(owner, "first"));
	char id[STORE_ID_MAX], key[STORE_KEY_MAX];
	int64_t expires_ms = 0;
	json_t *body;
	int err = b->expires_at ? expiry_read(b->expires_at, &expires_ms, f) : 0;

	if (!err)
		err = store_key_new(r->store, r->owner, r->id, b->name, admin, expires_ms, id, key, f);
	if (err)
		return err;
	body = json_pack("{s:s, s:s, s:s, s:s, s:b, s:s?}", "id", id, "key", key, "owner_id", r->id, "name",
			 b->name, "admin", (int)admin, "expires_at", b->expires_at);
	explicit_bzero(key, sizeof(key));
	return body ? respond_json(r, 201, body, f) : fault_no_memory(f);
}

int keys_create(struct request *r, struct fault *f)
{
	struct key_body b = { .name = "" };
	static const struct field fields[] = {
		{ "name", FIELD_STRING, offsetof(struct key_body, name), 0, NAME_MAX_BYTES },
		{ "expires_at", FIELD_STRING, offsetof(struct key_body, expires_at), 1, TIME_MAX_BYTES },
		{ "admin", FIELD_BOOL, offsetof(struct key_body, admin) },
		{ .type = FIELD_END },
	};
	json_t *owner;
	int err = request_fields(r, fields, &b, f);

	if (err)
		return err;
	err = store_owner_get(r->store, r->id, &owner);
	if (err)
		return store_fault(f, err, "owner");
	err = key_create(r, &b, owner, f);
	json_decref(owner);
	return err;
}

int keys_list(struct request *r, struct fault *f)
{
	const char *cursor;
	unsigned limit;
	json_t *list, *owner;
	int err = list_window(r, &limit, &cursor, f);

	if (err)
		return err;
	err = store_owner_get(r->store, r->id, &owner);
	if (err)
		return store_fault(f, err, "owner");
	json_decref(owner);
	err = store_key_list(r->store, r->id, limit, cursor, &list);
	return err ? store_fault(f, err, "owner") : respond_json(r, 200, list, f);
}

int keys_delete(struct request *r, struct fault *f)
{
	int err = store_key_revoke(r->store, r->owner, r->id, f);

	return err ? err : respond_empty(r, 204);
}
