/* What the doors tell the audit beside what was done: keys that came, requests that were refused. */
#include "audit.h"

#include <stdio.h>
#include <string.h>

#include "inner.h"

enum {
	KEY_USE_MS = 3600 * 1000,
	/* Keys and owners remembered, by a hash: two that meet cost a row more, never one less. */
	SLOTS = 256,
	ADDRESS_MAX = 48, /* an IPv6 address as text */
	/* Refusals that are rows of their own: so many at once, then one a second. */
	REFUSALS_BURST = 20,
	REFUSALS_EVERY_MS = 1000,
};

struct key_use {
	char key_id[STORE_ID_MAX], address[ADDRESS_MAX];
	int64_t at_ms;
};

struct refusals {
	int64_t since_ms; /* as if this many ms were saved up for rows */
	unsigned left_out;
};

struct doors {
	pthread_mutex_t lock;
	struct key_use uses[SLOTS];
	struct refusals refusals[SLOTS];
};

/* One store a process; what is forgotten with it is only how much was said. */
static struct doors doors = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned slot_of(const char *text)
{
	unsigned hash = 2166136261u; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return hash % SLOTS;
}

/* True once an hour. */
static bool use_is_news(const char *key_id, const char *address)
{
	struct key_use *use = &doors.uses[slot_of(key_id)];
	int64_t now = now_ms();
	bool news;

	pthread_mutex_lock(&doors.lock);
	news = strcmp(use->key_id, key_id) != 0 || strcmp(use->address, address) != 0 ||
	       now - use->at_ms >= KEY_USE_MS || now < use->at_ms;
	if (news) {
		snprintf(use->key_id, sizeof(use->key_id), "%s", key_id);
		snprintf(use->address, sizeof(use->address), "%s", address);
		use->at_ms = now;
	}
	pthread_mutex_unlock(&doors.lock);
	return news;
}

static void submit(struct store *s, const char *key_id, const char *owner_id, const char *sandbox_id,
		   const char *action, const char *result, json_t *detail)
{
	struct store_txn *t = store_txn_new(s);

	store_txn_soft(t);
	store_txn_audit_by(t, key_id, owner_id, sandbox_id, action, result, detail);
	store_txn_submit(t, NULL, NULL);
	json_decref(detail);
}

void store_key_used(struct store *s, const char *key_id, const char *owner_id, const char *address)
{
	char known[ADDRESS_MAX];

	snprintf(known, sizeof(known), "%s", address ? address : "");
	if (use_is_news(key_id, known))
		submit(s, key_id, owner_id, NULL, "key_use", "ok",
		       address ? json_pack("{s:s}", "address", known) : NULL);
}

/* Whether there is room for a row, and how many had none before it. */
static bool refusal_fits(const char *owner_id, unsigned *ret_left_out)
{
	struct refusals *r = &doors.refusals[slot_of(owner_id)];
	int64_t now = now_ms(), earliest = now - REFUSALS_BURST * REFUSALS_EVERY_MS;
	bool fits;

	pthread_mutex_lock(&doors.lock);
	if (r->since_ms < earliest || r->since_ms > now)
		r->since_ms = earliest;
	fits = r->since_ms + REFUSALS_EVERY_MS <= now;
	*ret_left_out = r->left_out;
	if (fits)
		r->since_ms += REFUSALS_EVERY_MS;
	r->left_out = fits ? 0 : r->left_out + 1;
	pthread_mutex_unlock(&doors.lock);
	return fits;
}

void store_refused(struct store *s, const char *key_id, const char *owner_id, const char *sandbox_id,
		   const char *code, json_t *detail)
{
	unsigned left_out;

	if (!refusal_fits(owner_id ? owner_id : "", &left_out)) {
		json_decref(detail);
		return;
	}
	if (left_out > 0)
		json_object_set_new(detail, "left_out", json_integer(left_out));
	submit(s, key_id, owner_id, sandbox_id, "refused", code, detail);
}
