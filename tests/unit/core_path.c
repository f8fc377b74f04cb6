/* UNIT: appliance appliance/core appliance/store vmm/host/spawn_link.c vmm/host/connect.c kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* The whole core on a scripted agent: snapshot, clone, executions and every way
 * they end, the queue, hostile agents, admission, deadlines, restart. */
#include "appliance/core/guest.h"
#include "core_stage.h"

static void plain(const char *id)
{
	struct run r = start(id, "print hello", 0);
	json_t *events = events_of(&r), *row;

	CHECK_INT(json_array_size(events), 3);
	CHECK_STR(text_of(event(events, "started"), "execution_id"), r.id);
	CHECK_STR(text_of(event(events, "stdout"), "text"), "hello");
	CHECK_STR(text_of(end_of(&r, events), "status"), "ok");
	json_decref(events);
	CHECK_INT(store_execution_get(u.store, u.owner, r.id, &row), 0);
	CHECK_STR(text_of(json_array_get(json_object_get(row, "outputs"), 0), "text"), "hello");
	json_decref(row);
	expect(id, "raise", 0, "error", "error");
	expect(id, "babble", 0, "ok", "stdout");
	expect(id, "late", 0, "ok", NULL);
	expect(id, "print again", 0, "ok", "stdout");
}

static void with_env(const char *id)
{
	json_t *env = json_pack("{s:s}", "A", "b");
	struct fault f;
	struct run r;
	json_t *events;

	CHECK_INT(execute(id, "print env", 0, env, &r, &f), 0);
	events = events_of(&r);
	CHECK_INT(json_array_size(events), 3);
	CHECK_STR(text_of(end_of(&r, events), "status"), "ok");
	json_decref(events);
	json_decref(env);
}

static void stopping(const char *id)
{
	struct run r = start(id, "hang", 0);
	struct fault f;
	json_t *events;

	/* At once: the code may not have begun yet, the interrupt must wait for it. */
	CHECK_INT(core_execution_interrupt(core, u.owner, r.id, &f), 0);
	events = events_of(&r);
	CHECK_STR(text_of(end_of(&r, events), "status"), "interrupted");
	json_decref(events);
	CHECK_INT(core_execution_interrupt(core, u.owner, r.id, &f), 0);
	CHECK_INT(core_execution_interrupt(core, u.owner, "exe-none", &f), -ENOENT);
	expect(id, "hang", 1, "timeout", "error");
	/* Deaf to the interrupt: its kernel is killed after a grace, and said to be new. */
	expect(id, "deaf", 1, "timeout", NULL);
	r = start(id, "print new", 0);
	events = events_of(&r);
	CHECK(json_is_true(json_object_get(event(events, "started"), "kernel_restarted")));
	json_decref(events);
}

static void dying(const char *id)
{
	struct run r = start(id, "die 3", 0);
	json_t *events = events_of(&r), *end = end_of(&r, events);

	CHECK_STR(text_of(end, "status"), "died");
	CHECK_INT(json_integer_value(json_object_get(end, "exit_code")), 3);
	CHECK_STR(text_of(event(events, "stderr"), "text"), "last words");
	json_decref(events);
	r = start(id, "print new", 0);
	events = events_of(&r);
	CHECK(json_is_true(json_object_get(event(events, "started"), "kernel_restarted")));
	json_decref(events);
	r = start(id, "print same", 0);
	events = events_of(&r);
	CHECK(!json_object_get(event(events, "started"), "kernel_restarted"));
	json_decref(events);
	/* Its end is not the first that is heard of it. */
	r = start(id, "vanish 3", 0);
	events = events_of(&r);
	CHECK_INT(json_array_size(events), 3);
	CHECK_STR(text_of(json_array_get(events, 0), "execution_id"), r.id);
	CHECK_STR(text_of(json_array_get(events, 0), "type"), "started");
	CHECK_INT(json_integer_value(json_object_get(json_array_get(events, 0), "execution_count")), 2);
	CHECK_STR(text_of(end_of(&r, events), "status"), "died");
	json_decref(events);
}

enum { QUEUE = 100 };

static void queueing(const char *id)
{
	struct run first = start(id, "hang", 0), waiting[QUEUE], over;
	struct fault f;
	json_t *events;
	int i;

	for (i = 0; i < QUEUE; i++)
		waiting[i] = start(id, "print x", 0);
	CHECK_INT(execute(id, "print x", 0, NULL, &over, &f), -EAGAIN);
	CHECK_INT(f.status, 429);
	CHECK_STR(f.code, "queue_full");
	CHECK(f.retry_after_s > 0);
	CHECK_INT(core_execution_interrupt(core, u.owner, waiting[50].id, &f), 0);
	CHECK_INT(core_execution_interrupt(core, u.owner, first.id, &f), 0);
	events = events_of(&first);
	CHECK_STR(text_of(end_of(&first, events), "status"), "interrupted");
	json_decref(events);
	for (i = 0; i < QUEUE; i++) {
		events = events_of(&waiting[i]);
		CHECK_INT(json_integer_value(json_object_get(event(events, "queued"), "position")), i + 1);
		CHECK_STR(text_of(end_of(&waiting[i], events), "status"), i == 50 ? "cancelled" : "ok");
		CHECK(!event(events, "started") == (i == 50));
		json_decref(events);
	}
}

static void ending_under_a_cell(void)
{
	struct run running, queued;
	char id[STORE_ID_MAX];
	struct fault f;
	json_t *events;

	create(id, "clone");
	running = start(id, "hang", 0);
	queued = start(id, "print x", 0);
	delete (id);
	events = events_of(&running);
	CHECK_STR(text_of(end_of(&running, events), "status"), "died");
	CHECK_STR(text_of(end_of(&running, events), "reason"), "asked");
	json_decref(events);
	events = events_of(&queued);
	CHECK_STR(text_of(end_of(&queued, events), "status"), "cancelled");
	CHECK(!event(events, "started"));
	json_decref(events);
	sandbox_ended(id, "asked");
	delete (id);
	CHECK_INT(execute(id, "print x", 0, NULL, &running, &f), -EBUSY);
	CHECK_INT(f.status, 409);
	CHECK_INT(core_sandbox_delete(core, "own-other", id, &f), -ENOENT);
	CHECK_INT(f.status, 404);
}

static void hostile(void)
{
	char id[STORE_ID_MAX];
	struct run r;
	json_t *events;

	create(id, "clone");
	r = start(id, "junk", 0);
	events = events_of(&r);
	CHECK_STR(text_of(end_of(&r, events), "status"), "died");
	CHECK_STR(text_of(end_of(&r, events), "reason"), "protocol-error");
	json_decref(events);
	sandbox_ended(id, "protocol-error");
}

static void admission(void)
{
	char ids[4][STORE_ID_MAX], big[STORE_ID_MAX];
	json_t *sandbox, *none = json_object();
	struct sandbox_spec spec = { .template_name = "python",
				     .engine = "auto",
				     .timeout_s = 300,
				     .limits = { .memory_mb = 4096, .disk_mb = 1024, .cpus = 1 },
				     .env = none,
				     .metadata = none };
	struct fault f = { 0 };
	int i;

	for (i = 0; i < 4; i++)
		create(ids[i], "clone");
	CHECK_INT(create_as(u.owner, 300, &sandbox, &f), -EDQUOT);
	CHECK_INT(f.status, 429);
	CHECK_STR(f.code, "quota");
	delete (ids[0]);
	CHECK_INT(core_sandbox_create(core, u.owner, &spec, &sandbox, &f), -ENOMEM);
	CHECK_INT(f.status, 503);
	CHECK_STR(f.code, "capacity");
	CHECK(f.retry_after_s > 0);
	for (i = 1; i < 4; i++)
		delete (ids[i]);
	/* A class without a snapshot is booted, never cut down to another. */
	spec.limits.memory_mb = 2048;
	CHECK_INT(core_sandbox_create(core, u.owner, &spec, &sandbox, &f), 0);
	CHECK_STR(text_of(sandbox, "started"), "boot");
	snprintf(big, sizeof(big), "%s", text_of(sandbox, "id"));
	json_decref(sandbox);
	expect(big, "print boot", 0, "ok", "stdout");
	delete (big);
	strcpy(spec.engine, "jail");
	CHECK_INT(core_sandbox_create(core, u.owner, &spec, &sandbox, &f), -EINVAL);
	CHECK_STR(f.code, "engine_unavailable");
	strcpy(spec.engine, "auto");
	strcpy(spec.template_name, "none");
	CHECK_INT(core_sandbox_create(core, u.owner, &spec, &sandbox, &f), -EINVAL);
	CHECK_STR(f.field, "template");
	json_decref(none);
}

static void spoilt_snapshot(void)
{
	char id[STORE_ID_MAX], why[320];
	unsigned templates = fake.templates;

	/* The sandbox comes all the same, and after two of them the snapshot is made again. */
	fake.refuse_clones = 2;
	create(id, "boot");
	expect(id, "print boot", 0, "ok", "stdout");
	delete (id);
	create(id, "boot");
	delete (id);
	while (!core_ready(core, why, sizeof(why)))
		usleep(2000);
	CHECK_INT(fake.templates, templates + 1);
	create(id, "clone");
	delete (id);
}

static void deadline(void)
{
	struct fault f = { 0 };
	json_t *sandbox;
	char id[STORE_ID_MAX];
	struct run r;
	json_t *events;

	CHECK_INT(create_as(u.owner, 1, &sandbox, &f), 0);
	snprintf(id, sizeof(id), "%s", text_of(sandbox, "id"));
	json_decref(sandbox);
	r = start(id, "hang", 0);
	events = events_of(&r);
	CHECK_STR(text_of(end_of(&r, events), "reason"), "deadline");
	json_decref(events);
	sandbox_ended(id, "deadline");
}

static void files_are_refused(const char *id)
{
	struct file_put *put;
	struct bytepipe *pipe;
	struct fault f;
	int64_t size;
	json_t *list;
	bool created;

	CHECK_INT(core_file_get(core, u.owner, id, "x", &pipe, &size, &f), -ENOENT);
	CHECK_STR(f.code, "no_such_file");
	CHECK_INT(core_file_delete(core, u.owner, id, "x", false, &f), -ENOENT);
	CHECK_INT(core_file_list(core, u.owner, id, "x", 10, NULL, &list, &f), -ENOENT);
	CHECK_INT(core_file_put_begin(core, u.owner, id, "x", &put, &pipe, &f), 0);
	CHECK_INT(bytepipe_write(pipe, "body", 4, -1, 1000), 0);
	bytepipe_worker_close(pipe, NULL);
	CHECK_INT(core_file_put_finish(put, &list, &created, &f), -ENOENT);
	CHECK_STR(f.code, "no_such_file");
}

/* What the agent says is told on: the caller's doing as a 4xx, the agent's own failure as a 502 that says
 * what to do, and nothing that could spoil a terminal. */
static void refusals_are_told(const char *id)
{
	static const struct {
		int agent;
		const char *answer;
		int status;
		const char *code, *says;
	} cases[] = {
		{ 400, "{\"code\":\"bad_request\",\"message\":\"No.\"}", 400, "bad_request", "No." },
		{ 403, "{\"code\":\"forbidden\",\"message\":\"No.\"}", 403, "forbidden", "No." },
		{ 409, "{\"code\":\"exists\",\"message\":\"No.\"}", 409, "exists", "No." },
		{ 413, "{\"code\":\"too_large\",\"message\":\"No.\"}", 413, "too_large", "No." },
		{ 429, "{\"code\":\"limit\",\"message\":\"No.\"}", 429, "limit", "No." },
		{ 500, "{\"code\":\"process_start\",\"message\":\"Text file busy.\"}", 409, "process_start",
		  "Text file busy." },
		{ 500, "{\"code\":\"kernel_start\",\"message\":\"No memory.\"}", 409, "kernel_start",
		  "No memory." },
		{ 507, "{\"code\":\"disk_full\",\"message\":\"Full.\"}", 507, "disk_full", "Full." },
		{ 500, "{\"code\":\"io\",\"message\":\"Bad sector.\"}", 502, "guest_error",
		  "Bad sector. Try again" },
		{ 500, "{\"code\":\"made-up\",\"message\":\"a\\u001b[31m\\nb\"}", 502, "guest_error",
		  "a?[31m?b" },
		{ 500, "{}", 502, "guest_error", "Try again" },
		{ 204, "[]", 503, "guest_lost", "try again" },
		{ 200, "no JSON", 503, "guest_lost", "try again" },
	};
	struct fault f;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.answer_status = cases[i].agent;
		fake.answer = cases[i].answer;
		CHECK(core_file_delete(core, u.owner, id, "x", false, &f) < 0);
		CHECK_INT(f.status, cases[i].status);
		CHECK_STR(f.code, cases[i].code);
		CHECK(strstr(f.message, cases[i].says));
		CHECK((f.retry_after_s > 0) == (f.status == 429 || f.status == 503));
	}
	fake.answer_status = 0;
}

static void ended_by_restart(const char *id)
{
	json_t *row;

	CHECK_INT(store_execution_get(u.store, u.owner, id, &row), 0);
	CHECK_STR(text_of(row, "status"), "died");
	CHECK_STR(text_of(row, "reason"), "host-restart");
	CHECK(text_of(row, "ended_at"));
	json_decref(row);
}

/* Its machine does not outlive the core here: rows and cells say so. */
static void restart(void)
{
	char id[STORE_ID_MAX], path[600];
	struct run r, damaged;

	create(id, "clone");
	r = start(id, "hang", 0);
	damaged = start(id, "print x", 0);
	wait_started(&r);
	core_stop(core, false);
	xlog_unref(r.log);
	xlog_unref(damaged.log);
	/* Its events are gone: it cannot go on, and does not look as if it would. */
	snprintf(path, sizeof(path), "%s/spool/%s/events", u.dir, damaged.id);
	CHECK_INT(unlink(path), 0);
	core_begin();
	sandbox_ended(id, "host-restart");
	ended_by_restart(r.id);
	ended_by_restart(damaged.id);
}

/* A guest's kernel can miss that its port was opened: it is opened again. */
static void unheard_connection(void)
{
	char id[STORE_ID_MAX];

	fake.unheard = 1;
	create(id, "clone");
	CHECK_INT(fake.unheard, 0);
	plain(id);
	delete (id);
}

int main(void)
{
	char id[STORE_ID_MAX];
	json_t *stats;

	stage();
	/* The snapshot's files take longer to write than a link is waited for: it is whole, at the first try. */
	fake.slow_disk_s = GUEST_CONNECT_MAX_MS / 1000 + 2;
	core_begin();
	fake.slow_disk_s = 0;
	sandbox_ended(u.sandbox, "host-restart");
	CHECK_INT(fake.templates, 1);
	create(id, "clone");
	plain(id);
	with_env(id);
	stopping(id);
	dying(id);
	queueing(id);
	files_are_refused(id);
	refusals_are_told(id);
	delete (id);
	ending_under_a_cell();
	hostile();
	admission();
	spoilt_snapshot();
	deadline();
	unheard_connection();
	restart();
	CHECK_INT(core_stats(core, &stats), 0);
	json_decref(stats);
	create(id, "clone");
	core_stop(core, true);
	sandbox_ended(id, "host-restart");
	setup_end(&u);
	return 0;
}
