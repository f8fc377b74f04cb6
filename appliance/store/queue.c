/* The queue and its thread. The writer takes what is queued as one group; while it
 * works the next group gathers, so groups grow with the load and an idle store
 * answers at once. A flood of output is a group of its own, and takes turns with
 * what others queued meanwhile: a short cell waits for one lane's bulk, not for all. */
#include "inner.h"

#include <errno.h>

struct lanes {
	const void *lane[STORE_LANES_MAX];
	unsigned count;
};

static bool lanes_have(const struct lanes *l, const void *lane)
{
	for (unsigned i = 0; i < l->count; i++)
		if (l->lane[i] == lane)
			return true;
	return false;
}

static bool lanes_add(struct lanes *l, const void *lane)
{
	if (lanes_have(l, lane))
		return true;
	if (l->count == STORE_LANES_MAX)
		return false;
	l->lane[l->count++] = lane;
	return true;
}

/* Those that may be committed now, in their order: all but bulk and what has to come after it. */
static struct store_txn *take_light(struct store *s)
{
	struct store_txn *batch = NULL, **last = &batch, **at = &s->queue, *t;
	struct lanes passed = { .count = 0 };

	while ((t = *at) && (t->lane || passed.count == 0)) {
		if (t->bulk || lanes_have(&passed, t->lane)) {
			if (!lanes_add(&passed, t->lane))
				break;
			at = &t->next;
			continue;
		}
		*at = t->next;
		t->next = NULL;
		*last = t;
		last = &t->next;
	}
	if (!*at)
		s->queue_last = at;
	return batch;
}

/* The first one's lane, up to what has none. */
static struct store_txn *take_lane(struct store *s)
{
	struct store_txn *batch = NULL, **last = &batch, **at = &s->queue, *t;
	const void *lane = s->queue ? s->queue->lane : NULL;

	while (lane && (t = *at) && t->lane) {
		if (t->lane != lane) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		t->next = NULL;
		*last = t;
		last = &t->next;
	}
	if (!*at)
		s->queue_last = at;
	return batch;
}

static struct store_txn *take_batch(struct store *s)
{
	struct store_txn *batch = s->bulk_due && s->queue && s->queue->bulk ? take_lane(s) : NULL;

	s->bulk_due = !batch;
	if (!batch)
		batch = take_light(s);
	return batch ? batch : take_lane(s);
}

static void *writer_main(void *arg)
{
	struct store *s = arg;
	struct store_txn *batch;

	for (;;) {
		pthread_mutex_lock(&s->lock);
		while (!s->queue && !s->closing)
			pthread_cond_wait(&s->wake, &s->lock);
		batch = take_batch(s);
		pthread_mutex_unlock(&s->lock);
		if (!batch)
			return NULL;
		batch_run(s, batch);
	}
}

int writer_start(struct store *s)
{
	return -pthread_create(&s->thread, NULL, writer_main, s);
}

void writer_stop(struct store *s)
{
	pthread_mutex_lock(&s->lock);
	s->closing = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
}

bool store_busy(struct store *s)
{
	bool busy;

	pthread_mutex_lock(&s->lock);
	busy = s->queued >= STORE_QUEUE_MAX;
	pthread_mutex_unlock(&s->lock);
	return busy;
}

void store_on_commit(struct store *s, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&s->lock);
	s->on_commit = fn;
	s->on_commit_arg = arg;
	pthread_mutex_unlock(&s->lock);
}

void store_figures(struct store *s, struct store_figures *ret)
{
	pthread_mutex_lock(&s->lock);
	*ret = s->figures;
	ret->queued_bytes = s->queued;
	pthread_mutex_unlock(&s->lock);
}

void store_txn_submit(struct store_txn *t, void (*done)(int err, const char *message, void *arg), void *arg)
{
	struct store *s = t->store;

	t->done = done;
	t->arg = arg;
	pthread_mutex_lock(&s->lock);
	if (s->queued > STORE_QUEUE_HARD_MAX)
		txn_fail(t, -ENOBUFS, "The store's disk cannot keep up: try again later.");
	s->queued += t->cost;
	*s->queue_last = t;
	s->queue_last = &t->next;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool done;
	int err;
	struct fault *fault;
};

static void waiting_done(int err, const char *message, void *arg)
{
	struct waiting *w = arg;

	pthread_mutex_lock(&w->lock);
	w->err = err;
	if (err)
		fault_set(w->fault, -err, err == -ENOSPC ? 507 : 500,
			  err == -ENOSPC ? "disk_full" : "store_failed", "%s", message);
	w->done = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

int store_txn_wait(struct store_txn *t, struct fault *f)
{
	struct waiting w = { .lock = PTHREAD_MUTEX_INITIALIZER,
			     .wake = PTHREAD_COND_INITIALIZER,
			     .fault = f };

	store_txn_submit(t, waiting_done, &w);
	pthread_mutex_lock(&w.lock);
	while (!w.done)
		pthread_cond_wait(&w.wake, &w.lock);
	pthread_mutex_unlock(&w.lock);
	return w.err;
}
