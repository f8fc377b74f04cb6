/* UNIT: appliance appliance/core appliance/store vmm/host/spawn_link.c vmm/host/connect.c kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* Two engines in one core, on scripted agents: who may ask for the second, what each sandbox
 * can, the pool of both, and whom the next start asks for what was there. */
#include "core_stage.h"

static int create_in(const char *engine, const char *snapshot, json_t **ret, struct fault *f)
{
	json_t *none = json_object();
	struct sandbox_spec spec = { .template_name = "python",
				     .timeout_s = 300,
				     .limits = { .memory_mb = 512, .disk_mb = 1024, .cpus = 1 },
				     .env = none,
				     .metadata = none,
				     .snapshot = snapshot };
	int err;

	snprintf(spec.engine, sizeof(spec.engine), "%s", engine);
	*f = (struct fault){ 0 };
	err = core_sandbox_create(core, u.owner, &spec, ret, f);
	json_decref(none);
	return err;
}

static void made_in(const char *engine, const char *runs, const char *started, char id[STORE_ID_MAX])
{
	json_t *sandbox, *row;
	struct fault f;
	int err = create_in(engine, NULL, &sandbox, &f);

	if (err)
		fprintf(stderr, "create: %s\n", f.message);
	CHECK_INT(err, 0);
	CHECK_STR(text_of(sandbox, "engine"), runs);
	CHECK_STR(text_of(sandbox, "started"), started);
	snprintf(id, STORE_ID_MAX, "%s", text_of(sandbox, "id"));
	json_decref(sandbox);
	CHECK_INT(store_sandbox_get(u.store, u.owner, id, &row), 0);
	CHECK_STR(text_of(row, "engine"), runs);
	json_decref(row);
}

static void refused(const char *engine, const char *says)
{
	json_t *none = NULL;
	struct fault f;

	CHECK(create_in(engine, NULL, &none, &f) < 0);
	CHECK_INT(f.status, 400);
	CHECK_STR(f.code, "engine_unavailable");
	CHECK_STR(f.field, "engine");
	if (!strstr(f.message, says))
		fprintf(stderr, "%s\n", f.message);
	CHECK(strstr(f.message, says));
}

static json_int_t stat_number(const char *object, const char *key)
{
	json_t *stats, *number;
	json_int_t n;

	CHECK_INT(core_stats(core, &stats), 0);
	number = json_object_get(json_object_get(stats, object), key);
	n = json_is_integer(number) ? json_integer_value(number) : -1;
	json_decref(stats);
	return n;
}

/* --- who may ask --- */

static void not_allowed(void)
{
	char id[STORE_ID_MAX];

	core_begin();
	refused("jail", "ALLOW_JAIL=yes");
	refused("tcg", "ENGINE");
	CHECK_INT(stat_number("engines", "jail"), -1);
	made_in("fake", "fake", "clone", id);
	delete (id);
	core_stop(core, true);
}

/* The host lacks something: that is said to who asks, and nobody else is bothered. */
static void cannot(void)
{
	char id[STORE_ID_MAX];

	fake.no_jail = "It has no namespaces.";
	core_begin();
	refused("jail", "It has no namespaces.");
	made_in("auto", "fake", "clone", id);
	delete (id);
	core_stop(core, true);
	fake.no_jail = NULL;
}

/* --- both --- */

static void only_paused(const char *id)
{
	json_t *got = NULL;
	struct fault f;

	CHECK_INT(core_sandbox_fork(core, u.owner, id, 1, 0, &got, &f), -ENOTSUP);
	CHECK_STR(f.code, "not_supported");
	CHECK(strstr(f.message, "The engine jail keeps no copy"));
	CHECK_INT(core_snapshot_create(core, u.owner, id, NULL, &got, &f), -ENOTSUP);
	CHECK_INT(core_sandbox_pause(core, u.owner, id, &got, &f), 0);
	CHECK_STR(text_of(got, "state"), "paused");
	json_decref(got);
	CHECK_INT(core_sandbox_resume(core, u.owner, id, 0, &got, &f), 0);
	CHECK_STR(text_of(got, "state"), "running");
	CHECK_STR(text_of(got, "engine"), "jail");
	json_decref(got);
	expect(id, "print hello", 0, "ok", "stdout");
}

static void together(void)
{
	char own[STORE_ID_MAX], jail[STORE_ID_MAX];
	unsigned clones = fake.clones;
	struct run r;

	create(own, "clone");
	made_in("jail", "jail", "boot", jail);
	CHECK_INT(fake.clones, clones + 1);
	expect(own, "print hello", 0, "ok", "stdout");
	expect(jail, "print hello", 0, "ok", "stdout");
	CHECK_INT(stat_number("engines", "fake"), 1);
	CHECK_INT(stat_number("engines", "jail"), 1);
	CHECK_INT(stat_number("sandboxes", "running"), 2);
	only_paused(jail);
	delete (own);
	r = start(jail, "hang", 0);
	wait_started(&r);
	delete (jail);
	xlog_unref(r.log);
	sandbox_ended(jail, "asked");
}

/* What waits is handed to who asks for its engine. */
static void pool_of_both(void)
{
	char id[4][STORE_ID_MAX];

	settings.pool = 1;
	settings.pool_max = 4;
	core_begin();
	while (stat_number("pool", "ready") != 1)
		usleep(5000);
	CHECK_INT(fake.boots, 0); /* none of the jail, unasked */
	made_in("jail", "jail", "boot", id[0]);
	while (stat_number("pool", "ready") != 2)
		usleep(5000);
	made_in("auto", "fake", "pool", id[1]);
	made_in("jail", "jail", "pool", id[2]);
	made_in("jail", "jail", "boot", id[3]);
	for (int i = 0; i < 4; i++) {
		expect(id[i], "print hello", 0, "ok", "stdout");
		delete (id[i]);
	}
	core_stop(core, true);
	settings.pool = settings.pool_max = 0;
}

/* --- the next start --- */

static bool asked(const char *engine, const char *id)
{
	char line[sizeof(fake.adopted[0])];
	unsigned i;

	snprintf(line, sizeof(line), "%s %s", engine, id);
	for (i = 0; i < fake.adopts; i++) {
		if (strcmp(fake.adopted[i], line) == 0)
			return true;
	}
	return false;
}

/* Each is asked of its own engine, also where nobody may ask for that one any more. */
static void restarts(const char *allow_after)
{
	char own[STORE_ID_MAX], jail[STORE_ID_MAX];

	snprintf(settings.allow_jail, sizeof(settings.allow_jail), "yes");
	core_begin();
	made_in("auto", "fake", "clone", own);
	made_in("jail", "jail", "boot", jail);
	core_stop(core, false);
	fake.adopts = 0;
	snprintf(settings.allow_jail, sizeof(settings.allow_jail), "%s", allow_after);
	core_begin();
	CHECK(asked("fake", own));
	CHECK(asked("jail", jail));
	CHECK(!asked("fake", jail));
	sandbox_ended(own, "host-restart");
	sandbox_ended(jail, "host-restart");
	if (strcmp(allow_after, "no") == 0)
		refused("jail", "ALLOW_JAIL=yes");
	core_stop(core, true);
}

/* ENGINE=jail: all of them, and nothing beside it. */
static void jail_alone(void)
{
	char id[STORE_ID_MAX];

	snprintf(settings.engine, sizeof(settings.engine), "jail");
	snprintf(settings.allow_jail, sizeof(settings.allow_jail), "yes");
	core_begin();
	made_in("auto", "jail", "boot", id);
	delete (id);
	made_in("jail", "jail", "boot", id);
	delete (id);
	refused("fake", "ENGINE");
	core_stop(core, true);
}

int main(void)
{
	stage();
	settings.sandboxes_per_owner = 8;
	not_allowed();
	snprintf(settings.allow_jail, sizeof(settings.allow_jail), "yes");
	cannot();
	core_begin();
	together();
	core_stop(core, true);
	fake.boots = 0;
	pool_of_both();
	restarts("yes");
	restarts("no");
	jail_alone();
	setup_end(&u);
	return 0;
}
