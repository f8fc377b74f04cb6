/* The queue in front of a kernel: one execution runs, the others wait in order. */
#include <errno.h>
#include <stdio.h>

#include "client.h"
#include "kernel.h"

void kernel_queue(struct kernel *k, struct execution *e)
{
	unsigned ahead = k->queued + (k->running ? 1 : 0);

	e->entry = ++k->entered;
	*k->queue_last = e;
	k->queue_last = &e->next;
	k->queued++;
	if (ahead > 0)
		events_add(&e->events, "queued",
			   json_pack("{s:s,s:i}", "execution_id", e->id, "position", (int)ahead));
}

void kernel_queue_restored(struct kernel *k, struct execution *e)
{
	e->entry = ++k->entered;
	*k->queue_last = e;
	k->queue_last = &e->next;
	k->queued++;
	e->state = EXECUTION_QUEUED;
}

void kernel_requeue(struct kernel *k)
{
	struct execution *e = k->running;

	hub_timer_stop(e->timer);
	e->state = EXECUTION_QUEUED;
	e->next = k->queue;
	if (!k->queue)
		k->queue_last = &e->next;
	k->queue = e;
	k->queued++;
	k->running = NULL;
}

bool kernel_unqueue(struct kernel *k, struct execution *e)
{
	struct execution **at;

	for (at = &k->queue; *at; at = &(*at)->next) {
		if (*at != e)
			continue;
		*at = e->next;
		if (!*at)
			k->queue_last = at;
		e->next = NULL;
		k->queued--;
		return true;
	}
	return false;
}

void kernel_finished(struct kernel *k, struct execution *e)
{
	if (k->running == e) {
		k->running = NULL;
		k->interrupt_wanted = false;
	} else {
		kernel_unqueue(k, e);
	}
	e->next = k->finished;
	k->finished = e;
	kernel_txn(k);
	kernel_restart_check(k);
	kernel_pump(k);
}

/* Whether there is a process that may be given something now. */
static bool takes_requests(struct kernel *k)
{
	if (!k->sandbox || k->sandbox->state != SANDBOX_RUNNING)
		return false;
	/* The process that is there now is not the one to run it. */
	if (k->restarting || k->restart_wanted || k->stopping)
		return false;
	/* What the agent already has of the queue is known once it attached. */
	if (k->restored)
		return false;
	if (k->state == KERNEL_DEAD)
		kernel_restart(k);
	return k->state != KERNEL_DEAD;
}

static bool execution_next(struct kernel *k)
{
	struct execution *e = k->queue;
	int err;

	if (!e || k->running || e->state != EXECUTION_QUEUED)
		return false;
	err = execution_start(e);
	if (err == -EMSGSIZE) {
		execution_end(e, "cancelled", "too-large");
		return true;
	}
	/* -EAGAIN: the link is down and the channel holds what it can; attached() pumps again. */
	if (err < 0)
		return false;
	kernel_unqueue(k, e);
	k->running = e;
	if (e->doubtful)
		execution_probe(e);
	return true;
}

void kernel_pump(struct kernel *k)
{
	if ((!k->queue || k->running || k->queue->state != EXECUTION_QUEUED) && !k->passing)
		return;
	if (!takes_requests(k))
		return;
	clients_pump(k);
	if (execution_next(k))
		clients_pump(k);
}

void kernel_sandbox_ended(struct kernel *k, const char *reason)
{
	struct execution *e;

	if (k->running)
		execution_end(k->running, "died", reason);
	while ((e = k->queue) != NULL)
		execution_end(e, "cancelled", reason);
	k->state = KERNEL_DEAD;
	kernel_txn(k);
	kernel_flush(k);
	clients_end(k, CLIENT_KERNEL_GONE);
	kernel_waiters_end(k);
}

static void release(struct execution *e)
{
	e->kernel = NULL;
	execution_unref(e);
}

void kernel_release(struct kernel *k)
{
	struct execution *e;

	if (k->txn)
		store_txn_drop(k->txn);
	k->txn = NULL;
	if (k->running)
		release(k->running);
	k->running = NULL;
	while ((e = k->queue) != NULL) {
		kernel_unqueue(k, e);
		release(e);
	}
	while ((e = k->finished) != NULL) {
		k->finished = e->next;
		release(e);
	}
	clients_end(k, CLIENT_STOPPED);
	kernel_waiters_end(k);
}
