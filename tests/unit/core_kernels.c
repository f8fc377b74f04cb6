/* UNIT: appliance appliance/core appliance/store vmm/host/spawn_link.c vmm/host/connect.c kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* The kernels of a sandbox on a scripted agent, which has one at a time: what is
 * shown, restart and deletion under cells, the default kernel's return. */
#include "core_stage.h"

enum { KERNELS_MAX = 32 };

static json_t *kernels(const char *sandbox)
{
	struct fault f;
	json_t *list;

	CHECK_INT(core_kernel_list(core, u.owner, sandbox, 100, NULL, &list, &f), 0);
	CHECK(json_is_null(json_object_get(list, "next")));
	return list;
}

static unsigned kernel_count(const char *sandbox)
{
	json_t *list = kernels(sandbox);
	unsigned n = (unsigned)json_array_size(json_object_get(list, "kernels"));

	json_decref(list);
	return n;
}

static void first_id(const char *sandbox, char ret[STORE_ID_MAX])
{
	json_t *list = kernels(sandbox);

	snprintf(ret, STORE_ID_MAX, "%s", text_of(json_array_get(json_object_get(list, "kernels"), 0), "id"));
	json_decref(list);
}

static void ended_as(struct run *r, const char *status, const char *reason)
{
	json_t *events = events_of(r), *end = end_of(r, events);

	CHECK_STR(text_of(end, "status"), status);
	CHECK(!reason == !text_of(end, "reason"));
	if (reason)
		CHECK_STR(text_of(end, "reason"), reason);
	json_decref(events);
}

static void shown(const char *sandbox, const char *kid)
{
	struct run running = start(sandbox, "hang", 0), queued;
	json_t *list, *k;
	struct fault f;

	wait_started(&running);
	queued = start(sandbox, "print x", 0);
	list = kernels(sandbox);
	k = json_array_get(json_object_get(list, "kernels"), 0);
	CHECK_STR(text_of(k, "id"), kid);
	CHECK_STR(text_of(k, "sandbox_id"), sandbox);
	CHECK_STR(text_of(k, "language"), "python");
	CHECK_STR(text_of(k, "state"), "busy");
	CHECK_INT(json_array_size(json_object_get(k, "queue")), 1);
	CHECK_STR(json_string_value(json_array_get(json_object_get(k, "queue"), 0)), queued.id);
	json_decref(list);
	CHECK_INT(core_kernel_interrupt(core, u.owner, kid, &f), 0);
	ended_as(&running, "interrupted", NULL);
	ended_as(&queued, "ok", NULL);
	CHECK_INT(core_kernel_interrupt(core, u.owner, kid, &f), 0);
}

static void restarted(const char *sandbox, const char *kid)
{
	struct run running = start(sandbox, "deaf", 0), queued, next;
	struct fault f;
	json_t *k, *events;

	wait_started(&running);
	queued = start(sandbox, "print x", 0);
	CHECK_INT(core_kernel_restart(core, u.owner, kid, &k, &f), 0);
	CHECK_STR(text_of(k, "id"), kid);
	CHECK_INT(json_integer_value(json_object_get(k, "execution_count")), 0);
	CHECK_INT(json_array_size(json_object_get(k, "queue")), 0);
	json_decref(k);
	/* A restart of carreld would not forget it. */
	CHECK_INT(store_open_kernels(u.store, sandbox, &k), 0);
	CHECK(json_is_true(json_object_get(json_array_get(k, 0), "restarted")));
	json_decref(k);
	ended_as(&running, "died", "kernel-restarted");
	ended_as(&queued, "cancelled", "kernel-restarted");
	next = start(sandbox, "print x", 0);
	events = events_of(&next);
	CHECK(json_is_true(json_object_get(event(events, "started"), "kernel_restarted")));
	json_decref(events);
	CHECK_INT(store_execution_get(u.store, u.owner, next.id, &k), 0);
	CHECK(json_is_true(json_object_get(k, "kernel_restarted")));
	json_decref(k);
	next = start(sandbox, "print x", 0);
	json_decref(events_of(&next));
	CHECK_INT(store_execution_get(u.store, u.owner, next.id, &k), 0);
	CHECK(json_is_false(json_object_get(k, "kernel_restarted")));
	json_decref(k);
}

static void deleted(const char *sandbox, const char *kid)
{
	struct run running = start(sandbox, "hang", 0), queued;
	struct fault f;
	char again[STORE_ID_MAX];

	wait_started(&running);
	queued = start(sandbox, "print x", 0);
	CHECK_INT(core_kernel_delete(core, u.owner, kid, &f), 0);
	ended_as(&running, "died", "kernel-deleted");
	ended_as(&queued, "cancelled", "kernel-deleted");
	CHECK_INT(kernel_count(sandbox), 0);
	CHECK_INT(core_kernel_delete(core, u.owner, kid, &f), -ENOENT);
	CHECK_INT(f.status, 404);
	/* Back when something needs it. */
	expect(sandbox, "print x", 0, "ok", "stdout");
	first_id(sandbox, again);
	CHECK_STR(again, kid);
}

static void refused(const char *sandbox, const char *kid)
{
	struct kernel_spec spec = { .language = "cobol" };
	struct execute_spec execution = { .code = "print x", .kernel_id = "nowhere" };
	struct fault f;
	json_t *k;
	struct run r;

	CHECK_INT(core_kernel_create(core, u.owner, sandbox, &spec, &k, &f), -EINVAL);
	CHECK_STR(f.code, "unknown_language");
	CHECK_INT(core_kernel_create(core, "own-other", sandbox, &spec, &k, &f), -ENOENT);
	CHECK_INT(core_kernel_restart(core, "own-other", kid, &k, &f), -ENOENT);
	CHECK_INT(core_kernel_interrupt(core, "own-other", kid, &f), -ENOENT);
	CHECK_INT(core_kernel_delete(core, "own-other", kid, &f), -ENOENT);
	CHECK_INT(f.status, 404);
	CHECK_INT(core_kernel_list(core, "own-other", sandbox, 10, NULL, &k, &f), -ENOENT);
	CHECK_INT(core_kernel_list(core, u.owner, sandbox, 10, "nowhere", &k, &f), -EINVAL);
	CHECK_INT(core_execute(core, u.owner, sandbox, &execution, r.id, &r.log, &f), -ENOENT);
	CHECK_STR(f.field, "kernel_id");
	fake.refuse_kernels = 1;
	spec.language = "python";
	CHECK(core_kernel_create(core, u.owner, sandbox, &spec, &k, &f) < 0);
	CHECK_INT(f.status, 409);
	CHECK_STR(f.code, "kernel_start");
	CHECK_INT(kernel_count(sandbox), 1);
}

static void start_fails(const char *sandbox, const char *kid)
{
	struct fault f;
	struct run r;

	CHECK_INT(core_kernel_delete(core, u.owner, kid, &f), 0);
	fake.refuse_kernels = 1;
	r = start(sandbox, "print x", 0);
	ended_as(&r, "cancelled", "kernel-failed");
	while (kernel_count(sandbox) > 0)
		usleep(2000);
	expect(sandbox, "print x", 0, "ok", "stdout");
}

/* It was started, and whoever was to hear of it is gone: the agent says what it is. */
static void start_answer_lost(const char *sandbox, const char *kid)
{
	struct fault f;
	json_t *list, *k;

	CHECK_INT(core_kernel_delete(core, u.owner, kid, &f), 0);
	fake.lost_kernels = 1;
	expect(sandbox, "print x", 0, "ok", "stdout");
	CHECK_INT(fake.lost_kernels, 0);
	list = kernels(sandbox);
	k = json_array_get(json_object_get(list, "kernels"), 0);
	CHECK_STR(text_of(k, "id"), kid);
	CHECK_STR(text_of(k, "name"), "python3");
	CHECK_STR(text_of(k, "language"), "python");
	json_decref(list);
}

static void bounded(const char *sandbox)
{
	struct kernel_spec spec = { .name = "python3" };
	struct fault f;
	json_t *k;
	unsigned n;

	for (n = kernel_count(sandbox); n < KERNELS_MAX; n++) {
		CHECK_INT(core_kernel_create(core, u.owner, sandbox, &spec, &k, &f), 0);
		CHECK_STR(text_of(k, "name"), "python3");
		json_decref(k);
	}
	CHECK_INT(core_kernel_create(core, u.owner, sandbox, &spec, &k, &f), -EAGAIN);
	CHECK_INT(f.status, 429);
	CHECK(f.retry_after_s > 0);
	CHECK_INT(core_kernel_list(core, u.owner, sandbox, 30, NULL, &k, &f), 0);
	CHECK_INT(json_array_size(json_object_get(k, "kernels")), 30);
	CHECK(json_is_string(json_object_get(k, "next")));
	json_decref(k);
}

int main(void)
{
	char sandbox[STORE_ID_MAX], kid[STORE_ID_MAX];
	json_t *list;
	struct fault f;

	stage();
	core_begin();
	create(sandbox, "clone");
	CHECK_INT(kernel_count(sandbox), 1);
	first_id(sandbox, kid);
	shown(sandbox, kid);
	restarted(sandbox, kid);
	deleted(sandbox, kid);
	refused(sandbox, kid);
	start_fails(sandbox, kid);
	start_answer_lost(sandbox, kid);
	delete (sandbox);
	create(sandbox, "clone");
	bounded(sandbox);
	delete (sandbox);
	sandbox_ended(sandbox, "asked");
	CHECK_INT(core_kernel_list(core, u.owner, sandbox, 10, NULL, &list, &f), 0);
	CHECK_INT(json_array_size(json_object_get(list, "kernels")), 0);
	json_decref(list);
	core_stop(core, true);
	setup_end(&u);
	return 0;
}
