#include "sweep.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sweep_inner.h"
#include "usage.h"

struct sweep {
	struct store *store;
	struct sweep_settings settings;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stopping;
};

/* --- too old --- */

static int old_erase(struct store *s, const struct sweep_settings *settings)
{
	char ids[SWEEP_ROWS][STORE_ID_MAX];
	int64_t seqs[SWEEP_ROWS];
	unsigned count = 0;
	struct batch b;
	int err;

	do {
		err = find_executions_old(s, settings, &b);
		if (!err && b.count > 0)
			err = sweep_erase(s, &b);
	} while (!err && b.count > 0 && !s->sweep_stops);
	do {
		err = err ? err : find_audit_old(s, settings, seqs, &count);
		if (!err && count > 0)
			err = sweep_audit(s, seqs, count);
	} while (!err && count > 0 && !s->sweep_stops);
	do {
		err = err ? err : find_sandboxes_old(s, settings, ids, &count);
		if (!err && count > 0)
			err = sweep_sandboxes(s, ids, count);
	} while (!err && count > 0 && !s->sweep_stops);
	return err;
}

/* --- too much --- */

/* What is older than the executions that just went; all there is, where none are left. */
static int rest_first(struct store *s, int64_t until_ms, struct bound *bound, unsigned *ret_count)
{
	char ids[SWEEP_ROWS][STORE_ID_MAX];
	int64_t seqs[SWEEP_ROWS], bytes;
	unsigned sandboxes, rows = 0;
	int err = find_sandboxes_first(s, until_ms, bound->bytes, ids, &sandboxes, &bytes);

	if (!err && sandboxes > 0)
		err = sweep_sandboxes(s, ids, sandboxes);
	bound->bytes -= bytes;
	if (!err && bound->bytes > 0)
		err = find_audit_first(s, until_ms, bound->bytes, seqs, &rows);
	if (!err && rows > 0)
		err = sweep_audit(s, seqs, rows);
	bound->bytes -= (int64_t)rows * AUDIT_COST;
	*ret_count = sandboxes + rows;
	return err;
}

static int much_erase(struct store *s, struct bound *bound)
{
	unsigned count = 0;
	struct batch b;
	int err = 0;

	while (!err && bound->bytes > 0 && !s->sweep_stops) {
		err = find_executions_first(s, bound, &b);
		if (!err && b.count > 0)
			err = sweep_erase(s, &b);
		bound->bytes -= b.bytes;
		if (!err && !bound->owner_id)
			err = rest_first(s, b.count > 0 ? b.last_queued_ms : INT64_MAX, bound, &count);
		if (b.count == 0 && count == 0)
			break;
	}
	return err;
}

static int over_erase(struct store *s, const struct sweep_settings *settings)
{
	char owner_id[STORE_ID_MAX] = "";
	struct bound bound = { .owner_id = owner_id };
	int64_t total = 0;
	int err;

	while ((err = find_owner_over(s, owner_id, &bound.bytes)) == 0)
		if ((err = much_erase(s, &bound)) < 0)
			break;
	if (err == -ENOENT)
		err = sweep_total(s, &total);
	bound = (struct bound){ .bytes = total - ((int64_t)settings->mb << 20) };
	return err || bound.bytes <= 0 ? err : much_erase(s, &bound);
}

int sweep_once(struct store *s, const struct sweep_settings *settings)
{
	int err = sweep_leftovers(s, 0);

	if (!err)
		err = sweep_count(s);
	if (!err)
		err = old_erase(s, settings);
	if (!err)
		err = store_usage_sweep(s);
	return err ? err : over_erase(s, settings);
}

/* --- the thread --- */

/* False: it is to stop. */
static bool sweep_wait(struct sweep *w)
{
	struct timespec until;
	bool stopping;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += w->settings.every_s;
	pthread_mutex_lock(&w->lock);
	while (!w->stopping && pthread_cond_timedwait(&w->wake, &w->lock, &until) != ETIMEDOUT)
		;
	stopping = w->stopping;
	pthread_mutex_unlock(&w->lock);
	return !stopping;
}

static void *sweep_main(void *arg)
{
	struct sweep *w = arg;
	int err = sweep_leftovers(w->store, now_ms() - 1000), before = 0;

	do {
		if (!err)
			err = sweep_once(w->store, &w->settings);
		if (err && err != before)
			fprintf(stderr, "carreld: history could not be swept: %s; it is tried again.\n", strerror(-err));
		before = err;
		err = 0;
	} while (sweep_wait(w));
	return NULL;
}

int sweep_start(struct store *s, const struct sweep_settings *settings, struct sweep **ret)
{
	struct sweep *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	*w = (struct sweep){ .store = s, .settings = *settings };
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	err = pthread_create(&w->thread, NULL, sweep_main, w);
	if (err) {
		free(w);
		return -err;
	}
	*ret = w;
	return 0;
}

void sweep_stop(struct sweep *w)
{
	if (!w)
		return;
	w->store->sweep_stops = true;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wake);
	w->store->sweep_stops = false;
	free(w);
}
