#include "hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "../store/audit.h"

struct hub_queue {
	struct hub_item *head, **tail;
};

struct hub {
	uv_loop_t loop;
	uv_async_t async;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_thread_t thread;
	bool running;
	pthread_mutex_t lock; /* guards posted and every posted item's queued */
	struct hub_queue posted;
	struct hub_queue turn;
};

struct hub_timer {
	uv_timer_t handle;
	void (*fn)(void *arg);
	void *arg;
};

struct hub_job {
	uv_work_t request;
	void (*work)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

static void queue_init(struct hub_queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
}

static bool queue_add(struct hub_queue *q, struct hub_item *item, void (*fn)(void *arg), void *arg)
{
	if (item->queued)
		return false;
	*item = (struct hub_item){ .fn = fn, .arg = arg, .queued = true };
	*q->tail = item;
	q->tail = &item->next;
	return true;
}

static struct hub_item *queue_take(struct hub_queue *q)
{
	struct hub_item *item = q->head;

	if (!item)
		return NULL;
	q->head = item->next;
	if (!q->head)
		q->tail = &q->head;
	item->queued = false;
	return item;
}

static void hub_run_posted(struct hub *h)
{
	for (;;) {
		void (*fn)(void *arg);
		void *arg;
		struct hub_item *item;

		pthread_mutex_lock(&h->lock);
		item = queue_take(&h->posted);
		if (item) {
			/* The item's memory may go as soon as the lock is off. */
			fn = item->fn;
			arg = item->arg;
		}
		pthread_mutex_unlock(&h->lock);
		if (!item)
			return;
		fn(arg);
	}
}

static void hub_run_turn(struct hub *h)
{
	struct hub_item *item;

	while ((item = queue_take(&h->turn)) != NULL)
		item->fn(item->arg);
}

static void on_async(uv_async_t *handle)
{
	hub_run_posted(handle->data);
}

/* Both hooks: what timers started is flushed before the loop sleeps, what
 * arrived in poll is flushed right after it. */
static void on_prepare(uv_prepare_t *handle)
{
	hub_run_turn(handle->data);
}

static void on_check(uv_check_t *handle)
{
	hub_run_turn(handle->data);
}

int hub_new(struct hub **ret)
{
	struct hub *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	err = uv_loop_init(&h->loop);
	if (err < 0) {
		free(h);
		return err;
	}
	pthread_mutex_init(&h->lock, NULL);
	queue_init(&h->posted);
	queue_init(&h->turn);
	err = uv_async_init(&h->loop, &h->async, on_async);
	if (err < 0) {
		uv_loop_close(&h->loop);
		free(h);
		return err;
	}
	uv_prepare_init(&h->loop, &h->prepare);
	uv_check_init(&h->loop, &h->check);
	h->async.data = h->prepare.data = h->check.data = h;
	uv_prepare_start(&h->prepare, on_prepare);
	uv_check_start(&h->check, on_check);
	*ret = h;
	return 0;
}

static void hub_main(void *arg)
{
	struct hub *h = arg;

	uv_run(&h->loop, UV_RUN_DEFAULT);
}

int hub_start(struct hub *h)
{
	int err = uv_thread_create(&h->thread, hub_main, h);

	if (err < 0)
		return err;
	h->running = true;
	return 0;
}

static void on_stop(void *arg)
{
	struct hub *h = arg;

	uv_stop(&h->loop);
}

void hub_stop(struct hub *h)
{
	struct hub_item stop = { 0 };

	if (!h->running)
		return;
	hub_post(h, &stop, on_stop, h);
	uv_thread_join(&h->thread);
	h->running = false;
}

void hub_drain(struct hub *h)
{
	hub_run_posted(h);
	hub_run_turn(h);
}

static void on_walk(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

void hub_free(struct hub *h)
{
	if (!h)
		return;
	hub_stop(h);
	hub_drain(h);
	uv_walk(&h->loop, on_walk, NULL);
	uv_run(&h->loop, UV_RUN_DEFAULT);
	uv_loop_close(&h->loop);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

uv_loop_t *hub_loop(struct hub *h)
{
	return &h->loop;
}

void hub_post(struct hub *h, struct hub_item *item, void (*fn)(void *arg), void *arg)
{
	bool added;

	pthread_mutex_lock(&h->lock);
	added = queue_add(&h->posted, item, fn, arg);
	/* Inside the lock: once it is off the hub may be gone with the item's effect. */
	if (added)
		uv_async_send(&h->async);
	pthread_mutex_unlock(&h->lock);
}

void hub_turn_end(struct hub *h, struct hub_item *item, void (*fn)(void *arg), void *arg)
{
	queue_add(&h->turn, item, fn, arg);
}

void hub_turn_cancel(struct hub *h, struct hub_item *item)
{
	struct hub_item **at;

	if (!item->queued)
		return;
	for (at = &h->turn.head; *at; at = &(*at)->next) {
		if (*at != item)
			continue;
		*at = item->next;
		if (!*at)
			h->turn.tail = at;
		item->queued = false;
		return;
	}
}

static void hub_call_start(void *arg)
{
	struct hub_call *call = arg;

	audit_asker_set(call->by);
	call->run(call);
	audit_asker_set(NULL);
}

int hub_call(struct hub *h, struct hub_call *call, void (*run)(struct hub_call *call))
{
	int err;

	call->item = (struct hub_item){ 0 };
	call->run = run;
	call->err = 0;
	snprintf(call->by, sizeof(call->by), "%s", audit_asker());
	err = uv_sem_init(&call->done, 0);
	if (err < 0)
		return fault_set(&call->fault, -err, 500, "internal", "A semaphore could not be made.");
	hub_post(h, &call->item, hub_call_start, call);
	uv_sem_wait(&call->done);
	uv_sem_destroy(&call->done);
	return call->err;
}

void hub_call_end(struct hub_call *call, int err)
{
	call->err = err;
	uv_sem_post(&call->done);
}

static void on_timer(uv_timer_t *handle)
{
	struct hub_timer *t = handle->data;

	t->fn(t->arg);
}

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

struct hub_timer *hub_timer_new(struct hub *h, void (*fn)(void *arg), void *arg)
{
	struct hub_timer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->fn = fn;
	t->arg = arg;
	uv_timer_init(&h->loop, &t->handle);
	t->handle.data = t;
	return t;
}

void hub_timer_set(struct hub_timer *t, uint64_t ms)
{
	/* A timer counts from the loop's idea of now, which lags behind in a busy turn. */
	uv_update_time(t->handle.loop);
	uv_timer_start(&t->handle, on_timer, ms, 0);
}

void hub_timer_stop(struct hub_timer *t)
{
	uv_timer_stop(&t->handle);
}

bool hub_timer_is_set(const struct hub_timer *t)
{
	return uv_is_active((const uv_handle_t *)&t->handle) != 0;
}

void hub_timer_free(struct hub_timer *t)
{
	if (t)
		uv_close((uv_handle_t *)&t->handle, on_timer_closed);
}

static void job_work(uv_work_t *request)
{
	struct hub_job *job = request->data;

	job->work(job->arg);
}

static void job_done(uv_work_t *request, int status)
{
	struct hub_job *job = request->data;

	(void)status;
	job->done(job->arg);
	free(job);
}

int hub_work(struct hub *h, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
	struct hub_job *job = malloc(sizeof(*job));
	int err;

	if (!job)
		return -ENOMEM;
	*job = (struct hub_job){ .work = work, .done = done, .arg = arg };
	job->request.data = job;
	err = uv_queue_work(&h->loop, &job->request, job_work, job_done);
	if (err < 0)
		free(job);
	return err;
}
