/* The queue and its thread. The writer takes what is queued as one group; while it
 * works the next group gathers, so groups grow with the load and an idle store
 * answers at once. A flood of output is a group of its own, takes turns with what
 * others queued meanwhile, and rests in between: a short cell waits for one lane's
 * bulk at most. Nobody else there: it has the writer for itself. */
#include "inner.h"

#include <errno.h>

/* What a group is made of, as the queue is gone through from its first. */
struct pick {
	const void *only;                    /* the lane that is taken */
	const void *passed[STORE_LANES_MAX]; /* or those that are not */
	unsigned count;
};

enum verdict { TAKE, PASS, STOP };

static bool was_passed(const struct pick *p, const void *lane)
{
	for (unsigned i = 0; i < p->count; i++)
		if (p->passed[i] == lane)
			return true;
	return false;
}

/* All but bulk, and what has to come after it. */
static enum verdict light(struct pick *p, const struct store_txn *t)
{
	bool passed = was_passed(p, t->lane);

	if (!t->lane)
		return p->count ? STOP : TAKE;
	if (!t->bulk && !passed)
		return TAKE;
	if (!passed && p->count == STORE_LANES_MAX)
		return STOP;
	if (!passed)
		p->passed[p->count++] = t->lane;
	return PASS;
}

/* One lane, up to what has none. */
static enum verdict lane(struct pick *p, const struct store_txn *t)
{
	if (!t->lane)
		return STOP;
	return t->lane == p->only ? TAKE : PASS;
}

static struct store_txn *take(struct store *s, enum verdict (*judge)(struct pick *p, const struct store_txn *t))
{
	struct store_txn *batch = NULL, **last = &batch, **at = &s->queue, *t;
	struct pick p = { .only = s->queue ? s->queue->lane : NULL };
	enum verdict v = PASS;

	while ((t = *at) && (v = judge(&p, t)) != STOP) {
		if (v == PASS) {
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

/* Until when bulk rests while others are there, so that neither the disk nor the hub nor the processor is taken up by
 * it. 0: nobody is. */
static int64_t rests_until(const struct store *s)
{
	const struct store_txn *t = s->queue;
	int64_t rest_us = (STORE_BULK_PART - 1) * s->bulk.took_us;

	if (!t || !t->bulk || s->closing || !s->light.lane || s->light.lane == t->lane ||
	    monotonic_us() - s->light.ended_us > STORE_OTHERS_MS * 1000)
		return 0;
	return s->bulk.ended_us + (rest_us < STORE_REST_MAX_MS * 1000 ? rest_us : STORE_REST_MAX_MS * 1000);
}

/* Whatever else is there is waited for by somebody: a flood's end, too. */
static bool has_only_bulk(const struct store *s)
{
	const struct store_txn *t = s->queue;

	while (t && t->bulk)
		t = t->next;
	return !t;
}

static void wait_for_work(struct store *s)
{
	struct timespec at;
	int64_t until;

	while (!s->queue && !s->closing)
		pthread_cond_wait(&s->wake, &s->lock);
	while ((until = rests_until(s)) > monotonic_us() && has_only_bulk(s)) {
		at = (struct timespec){ until / 1000000, until % 1000000 * 1000 };
		pthread_cond_clockwait(&s->wake, &s->lock, CLOCK_MONOTONIC, &at);
	}
}

static struct store_txn *take_batch(struct store *s)
{
	bool due = s->bulk_due && s->queue && s->queue->bulk && rests_until(s) <= monotonic_us();
	struct store_txn *batch = due ? NULL : take(s, light);

	/* A lane's turn comes after each group of the others, not before one. */
	s->bulk_due = batch != NULL;
	return batch ? batch : take(s, lane);
}

static void *writer_main(void *arg)
{
	struct store *s = arg;
	struct store_txn *batch;
	struct lane_use *use;
	int64_t began;

	for (;;) {
		pthread_mutex_lock(&s->lock);
		wait_for_work(s);
		batch = take_batch(s);
		pthread_mutex_unlock(&s->lock);
		if (!batch)
			return NULL;
		use = batch->bulk ? &s->bulk : &s->light;
		use->lane = batch->lane;
		began = monotonic_us();
		batch_run(s, batch);
		use->ended_us = monotonic_us();
		use->took_us = use->ended_us - began;
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
