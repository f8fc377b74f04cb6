/* What the store's unit tests share: a state directory of their own with an
 * owner and a sandbox in it, and a wait for callbacks. */
#ifndef CARREL_TESTS_STORE_SETUP_H
#define CARREL_TESTS_STORE_SETUP_H

#include <pthread.h>
#include <unistd.h>

#include "appliance/store/store.h"
#include "appliance/store/xlog.h"
#include "check.h"

struct setup {
	char dir[200];
	struct store *store;
	char owner[STORE_ID_MAX];
	char sandbox[STORE_ID_MAX];
};

static inline const char *text_of(json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

struct result {
	pthread_mutex_t lock;
	bool done;
	int err;
	char message[256];
};

static inline void result_done(int err, const char *message, void *arg)
{
	struct result *r = arg;

	pthread_mutex_lock(&r->lock);
	r->err = err;
	snprintf(r->message, sizeof(r->message), "%s", message ? message : "");
	r->done = true;
	pthread_mutex_unlock(&r->lock);
}

static inline int result_wait(struct result *r)
{
	for (;;) {
		pthread_mutex_lock(&r->lock);
		if (r->done) {
			pthread_mutex_unlock(&r->lock);
			return r->err;
		}
		pthread_mutex_unlock(&r->lock);
		usleep(1000);
	}
}

static inline void commit(struct store_txn *t)
{
	struct fault f;
	int err = store_txn_wait(t, &f);

	if (err)
		fprintf(stderr, "commit: %s\n", f.message);
	CHECK_INT(err, 0);
}

static inline void setup_token(struct setup *u, char ret[STORE_KEY_MAX])
{
	char path[300];
	FILE *file;

	snprintf(path, sizeof(path), "%s/token", u->dir);
	file = fopen(path, "r");
	CHECK(file && fgets(ret, STORE_KEY_MAX, file));
	fclose(file);
	ret[strcspn(ret, "\n")] = '\0';
}

static inline void setup_sandbox(struct setup *u, const char *id, const char *state, const char *end_reason)
{
	json_t *limits = json_pack("{s:i}", "memory_mb", 512), *env = json_pack("{s:s}", "SECRET", "x");
	struct sandbox_row row = { .state = state, .engine = "tcg", .template_name = "python", .image = "abc",
				   .started = "clone", .end_reason = end_reason, .created_ms = 1700000000123,
				   .deadline_ms = 1700000300999, .ended_ms = end_reason ? 1700000001000 : 0,
				   .limits = limits, .env = env };
	struct store_txn *t = store_txn_new(u->store);

	snprintf(row.id, sizeof(row.id), "%s", id);
	snprintf(row.owner_id, sizeof(row.owner_id), "%s", u->owner);
	store_txn_sandbox(t, &row);
	store_txn_audit(t, u->owner, id, "sandbox_create", limits);
	json_decref(limits);
	json_decref(env);
	commit(t);
}

static inline void setup_execution(struct setup *u, const char *id, const char *status, const char *code)
{
	struct execution_row row = { .status = status, .code = code, .exit_code = -1, .queued_ms = 1700000000000,
				     .kernel_id = "krn-1", .timeout_ms = 5000 };
	struct store_txn *t = store_txn_new(u->store);

	snprintf(row.id, sizeof(row.id), "%s", id);
	snprintf(row.sandbox_id, sizeof(row.sandbox_id), "%s", u->sandbox);
	store_txn_execution(t, &row);
	commit(t);
}

/* Opens (again) the store of u->dir and reads who the owner is. */
static inline void setup_open(struct setup *u)
{
	char key[STORE_KEY_MAX], id[STORE_ID_MAX];
	struct fault f;
	bool admin;
	int err = store_open(u->dir, &u->store, &f);

	if (err)
		fprintf(stderr, "store_open: %s\n", f.message);
	CHECK_INT(err, 0);
	CHECK_INT(store_first_owner(u->store, u->dir, &f), 0);
	setup_token(u, key);
	CHECK_INT(store_key_check(u->store, key, u->owner, id, &admin), 0);
}

static inline void setup_begin(struct setup *u)
{
	*u = (struct setup){ .dir = "/tmp/carrel-store-XXXXXX" };
	CHECK(mkdtemp(u->dir));
	setup_open(u);
	snprintf(u->sandbox, sizeof(u->sandbox), "sbx-first");
	setup_sandbox(u, u->sandbox, "running", NULL);
}

static inline void setup_end(struct setup *u)
{
	char command[300];

	store_close(u->store);
	snprintf(command, sizeof(command), "rm -rf '%s'", u->dir);
	CHECK_INT(system(command), 0);
}

#endif
