/* UNIT: appliance appliance/core appliance/store vmm/host/spawn_link.c vmm/host/connect.c kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* The pool on a scripted agent: filled, taken, missed, given up for sandboxes and
 * at the stop; and clones that wait for their turn to start. */
#include <pthread.h>

#include "core_stage.h"

enum { POOL = 2, MANY = 4 };

static json_int_t pool_number(const char *key)
{
	json_t *stats;
	json_int_t n;

	CHECK_INT(core_stats(core, &stats), 0);
	n = json_integer_value(json_object_get(json_object_get(stats, "pool"), key));
	json_decref(stats);
	return n;
}

static void pool_wait(const char *key, json_int_t n)
{
	while (pool_number(key) != n)
		usleep(5000);
}

static void taken(void)
{
	char id[STORE_ID_MAX];
	struct run r;
	json_t *row;

	pool_wait("ready", POOL);
	create(id, "pool");
	expect(id, "print hello", 0, "ok", "stdout");
	CHECK_INT(store_sandbox_get(u.store, u.owner, id, &row), 0);
	CHECK_STR(text_of(row, "started"), "pool");
	json_decref(row);
	CHECK_INT(pool_number("claimed"), 1);
	r = start(id, "hang", 0);
	wait_started(&r);
	delete (id);
	xlog_unref(r.log);
	sandbox_ended(id, "asked");
	/* What was taken is replaced, once nobody creates. */
	pool_wait("ready", POOL);
}

/* The snapshot's clones fail: no machine is handed out that did not come up. */
static void unusable(void)
{
	char id[STORE_ID_MAX];
	json_int_t lost = pool_number("lost");

	create(id, "pool");
	fake.refuse_clones = 1;
	pool_wait("lost", lost + 1);
	delete (id);
	pool_wait("ready", POOL);
}

static void *create_many(void *arg)
{
	struct fault f = { 0 };
	json_t *sandbox;
	int err = create_as(u.owner, 300, &sandbox, &f);

	if (err) {
		CHECK_INT(f.status, 429);
		CHECK(f.retry_after_s > 0);
		return NULL;
	}
	snprintf(arg, STORE_ID_MAX, "%s", text_of(sandbox, "id"));
	json_decref(sandbox);
	return arg;
}

/* More at once than the pool has and than start at once: all come up, or the quota says no. */
static void many(void)
{
	char ids[2 * MANY][STORE_ID_MAX];
	pthread_t threads[2 * MANY];
	unsigned i, made = 0;
	void *id[2 * MANY];

	for (i = 0; i < 2 * MANY; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, create_many, ids[i]), 0);
	for (i = 0; i < 2 * MANY; i++)
		pthread_join(threads[i], &id[i]);
	for (i = 0; i < 2 * MANY; i++) {
		if (!id[i])
			continue;
		made++;
		expect(id[i], "print hello", 0, "ok", "stdout");
		delete (id[i]);
	}
	CHECK_INT(made, MANY);
	CHECK(pool_number("missed") > 0);
	CHECK(pool_number("size") > POOL);
	CHECK(pool_number("size") <= pool_number("max"));
}

int main(void)
{
	stage();
	settings.pool = POOL;
	settings.pool_max = POOL + 2;
	settings.sandboxes_per_owner = MANY;
	core_begin();
	taken();
	unusable();
	many();
	/* Its machines are nobody's: they end with the core, whatever becomes of sandboxes. */
	core_stop(core, false);
	setup_end(&u);
	return 0;
}
