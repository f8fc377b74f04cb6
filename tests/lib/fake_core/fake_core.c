/* core.h in memory, for tests of the front alone: sandboxes are rows without a
 * machine, "code" is a word that says which events come, files live in a list.
 * Rows, event logs and pipes are the real ones.
 *
 * code:    "silent" (until interrupted), "lines N", "flood" (until interrupted),
 *          "broken" (the log ends without its end event)
 * argv[0]: "echo" (its stdin), "sleep" (until the client is gone)
 * paths:   "full" takes 1 MiB and then has no space, "short" promises more than
 *          it delivers, "dir" is a directory
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake_core.h"

enum { FLOOD_LINES = 200 };

static int64_t now_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int core_start(const struct settings *s, struct store *store, struct core **ret, struct fault *f)
{
	struct core *c = calloc(1, sizeof(*c));

	(void)f;
	c->settings = s;
	c->store = store;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	*ret = c;
	return 0;
}

void core_stop(struct core *c, bool end_sandboxes)
{
	(void)end_sandboxes;
	pthread_mutex_lock(&c->lock);
	c->stopping = true;
	pthread_cond_broadcast(&c->changed);
	while (c->threads > 0)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	for (struct fake_run *r = c->runs, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	fake_files_free(c);
	free(c);
}

bool core_ready(struct core *c, char *ret_why, size_t size)
{
	(void)c;
	snprintf(ret_why, size, "ready");
	return true;
}

int core_stats(struct core *c, json_t **ret)
{
	pthread_mutex_lock(&c->lock);
	*ret = json_pack("{s:i, s:I}", "threads", (int)c->threads, "gone_ms", (json_int_t)c->gone_ms);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

void core_figures(struct core *c, struct core_figures *ret)
{
	(void)c;
	*ret = (struct core_figures){ .states = { "running" }, .engines = { { .name = "tcg" } } };
}

int core_templates(struct core *c, const char *after, unsigned limit, json_t **ret)
{
	(void)after;
	(void)limit;
	*ret = json_pack("{s:[{s:s}], s:n}", "templates", "name", c->settings->template_name, "next");
	return 0;
}

int core_template(struct core *c, const char *name, json_t **ret, struct fault *f)
{
	if (strcmp(name, c->settings->template_name) != 0)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such template.");
	*ret = json_pack("{s:s, s:b}", "name", name, "warm", 1);
	return 0;
}

/* --- threads that play the hub --- */

void fake_thread(struct core *c, void *(*run)(void *), void *arg)
{
	pthread_t t;

	pthread_mutex_lock(&c->lock);
	c->threads++;
	pthread_mutex_unlock(&c->lock);
	pthread_create(&t, NULL, run, arg);
	pthread_detach(t);
}

void fake_thread_end(struct core *c)
{
	pthread_mutex_lock(&c->lock);
	c->threads--;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

/* --- sandboxes --- */

static int sandbox_row(struct core *c, const char *owner, const char *id, const char *state,
		       unsigned timeout_s, json_t *metadata, struct fault *f)
{
	struct store_txn *t = store_txn_new(c->store);
	struct sandbox_row row = {
		.state = state,
		.engine = "tcg",
		.template_name = "python",
		.image = "0",
		.started = "boot",
		.end_reason = strcmp(state, "ended") ? NULL : "asked",
		.created_ms = now_ms(CLOCK_REALTIME),
		.deadline_ms = now_ms(CLOCK_REALTIME) + timeout_s * 1000LL,
		.ended_ms = strcmp(state, "ended") ? 0 : now_ms(CLOCK_REALTIME),
		.metadata = metadata,
	};

	snprintf(row.id, sizeof(row.id), "%s", id);
	snprintf(row.owner_id, sizeof(row.owner_id), "%s", owner);
	store_txn_sandbox(t, &row);
	return store_txn_wait(t, f);
}

int fake_sandbox_check(struct core *c, const char *owner, const char *id, struct fault *f)
{
	json_t *row;
	int err = store_sandbox_get(c->store, owner, id, &row);

	if (err)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such sandbox.");
	json_decref(row);
	return 0;
}

int core_sandbox_create(struct core *c, const char *owner, const struct sandbox_spec *spec, json_t **ret,
			struct fault *f)
{
	static atomic_uint count;
	char id[STORE_ID_MAX];
	int err;

	if (strcmp(spec->template_name, "python") != 0)
		return fault_field(f, "unknown_template", "template", "There is no template %s.",
				   spec->template_name);
	snprintf(id, sizeof(id), "sb-%u", atomic_fetch_add(&count, 1));
	err = sandbox_row(c, owner, id, "running", spec->timeout_s, spec->metadata, f);
	return err ? err : store_sandbox_get(c->store, owner, id, ret);
}

int core_sandbox_timeout(struct core *c, const char *owner, const char *id, unsigned timeout_s, json_t **ret,
			 struct fault *f)
{
	int err = fake_sandbox_check(c, owner, id, f);

	if (!err)
		err = sandbox_row(c, owner, id, "running", timeout_s, NULL, f);
	return err ? err : store_sandbox_get(c->store, owner, id, ret);
}

int core_sandbox_delete(struct core *c, const char *owner, const char *id, struct fault *f)
{
	int err = fake_sandbox_check(c, owner, id, f);

	return err ? err : sandbox_row(c, owner, id, "ended", 0, NULL, f);
}

/* --- executions --- */

static void run_log(struct fake_run *r, const char *lines, uint64_t last_seq, bool end)
{
	struct store_txn *t = store_txn_new(r->core->store);
	struct fault f = { .message = "" };

	store_txn_log(t, r->log, lines, strlen(lines), last_seq, end);
	if (store_txn_wait(t, &f))
		fprintf(stderr, "fake core: %s\n", f.message);
}

static void run_row(struct fake_run *r, const char *status, uint64_t last_seq, uint64_t log_bytes)
{
	struct store_txn *t = store_txn_new(r->core->store);
	struct execution_row row = {
		.status = status,
		.code = r->code,
		.exit_code = -1,
		.queued_ms = now_ms(CLOCK_REALTIME),
		.started_ms = now_ms(CLOCK_REALTIME),
		.ended_ms = strcmp(status, "running") ? now_ms(CLOCK_REALTIME) : 0,
		.last_seq = last_seq,
		.log_bytes = log_bytes,
	};
	struct kernel_row kernel = { .name = "python", .language = "python", .state = "idle" };
	struct fault f = { .message = "" };

	snprintf(row.id, sizeof(row.id), "%s", r->id);
	snprintf(row.sandbox_id, sizeof(row.sandbox_id), "%s", r->sandbox_id);
	snprintf(kernel.id, sizeof(kernel.id), "k-%.30s", r->sandbox_id);
	snprintf(kernel.sandbox_id, sizeof(kernel.sandbox_id), "%s", r->sandbox_id);
	memcpy(row.kernel_id, kernel.id, sizeof(row.kernel_id));
	store_txn_kernel(t, &kernel);
	store_txn_execution(t, &row);
	if (store_txn_wait(t, &f))
		fprintf(stderr, "fake core: %s\n", f.message);
}

static bool run_wait(struct fake_run *r, bool forever)
{
	bool on;

	pthread_mutex_lock(&r->core->lock);
	while (forever && !r->interrupted && !r->core->stopping)
		pthread_cond_wait(&r->core->changed, &r->core->lock);
	on = !r->interrupted && !r->core->stopping;
	pthread_mutex_unlock(&r->core->lock);
	return on;
}

static uint64_t run_lines(struct fake_run *r, uint64_t seq, unsigned count)
{
	char lines[FLOOD_LINES * 80] = "", *at = lines;

	for (unsigned i = 0; i < count && i < FLOOD_LINES; i++)
		at += sprintf(at, "{\"type\":\"stdout\",\"seq\":%llu,\"text\":\"line %u\\n\"}\n",
			      (unsigned long long)++seq, i);
	run_log(r, lines, seq, false);
	return seq;
}

static void *run_main(void *arg)
{
	struct fake_run *r = arg;
	struct core *c = r->core;
	char line[160];
	uint64_t seq = 1;
	unsigned count = 0;

	snprintf(line, sizeof(line),
		 "{\"type\":\"started\",\"seq\":1,\"execution_id\":\"%s\",\"execution_count\":1}\n", r->id);
	run_log(r, line, 1, false);
	if (!strcmp(r->code, "silent"))
		run_wait(r, true);
	/* A live reader that lags holds the source, as the core does. */
	while (!strcmp(r->code, "flood") && run_wait(r, false))
		if (xlog_lag(r->log) < XLOG_WINDOW_MAX / 2)
			seq = run_lines(r, seq, FLOOD_LINES);
		else
			poll(NULL, 0, 10);
	if (sscanf(r->code, "lines %u", &count) == 1)
		seq = run_lines(r, seq, count);
	snprintf(line, sizeof(line), "{\"type\":\"end\",\"seq\":%llu,\"status\":\"%s\",\"duration_ms\":1}\n",
		 (unsigned long long)seq + 1, r->interrupted ? "interrupted" : "ok");
	if (strcmp(r->code, "broken") != 0)
		run_log(r, line, ++seq, true);
	else
		run_log(r, "", seq, true);
	struct xlog_position p;
	xlog_position(r->log, &p);
	run_row(r, "ok", p.last_seq, p.size);
	xlog_unref(r->log);
	fake_thread_end(c);
	return NULL;
}

int core_execute(struct core *c, const char *owner, const char *sandbox_id, const struct execute_spec *spec,
		 char ret_id[STORE_ID_MAX], struct xlog **ret_log, struct fault *f)
{
	static atomic_uint count;
	int err = fake_sandbox_check(c, owner, sandbox_id, f);
	struct fake_run *r;

	if (err)
		return err;
	r = calloc(1, sizeof(*r));
	r->core = c;
	snprintf(r->id, sizeof(r->id), "x-%u", atomic_fetch_add(&count, 1));
	snprintf(r->sandbox_id, sizeof(r->sandbox_id), "%s", sandbox_id);
	snprintf(r->code, sizeof(r->code), "%s", spec->code);
	err = xlog_open(c->settings->state, r->id, true, 0, 0, false, &r->log);
	if (err) {
		free(r);
		return fault_set(f, -err, 500, "store_failed", "The event log cannot be made.");
	}
	run_row(r, "running", 0, 0);
	*ret_log = xlog_ref(r->log);
	memcpy(ret_id, r->id, sizeof(r->id));
	pthread_mutex_lock(&c->lock);
	r->next = c->runs;
	c->runs = r;
	pthread_mutex_unlock(&c->lock);
	fake_thread(c, run_main, r);
	return 0;
}

int core_execution_interrupt(struct core *c, const char *owner, const char *id, struct fault *f)
{
	json_t *row;

	if (store_execution_get(c->store, owner, id, &row))
		return fault_set(f, ENOENT, 404, "not_found", "There is no such execution.");
	json_decref(row);
	pthread_mutex_lock(&c->lock);
	for (struct fake_run *r = c->runs; r; r = r->next)
		if (!strcmp(r->id, id))
			r->interrupted = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	return 0;
}
