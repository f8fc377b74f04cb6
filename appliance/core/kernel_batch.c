/* One turn's frames as one transaction; the acknowledgement after its commit. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "kernel.h"

struct kernel_commit {
	struct hub_item item;
	struct kernel *kernel;
	uint64_t seq;
	size_t bytes;
	struct execution *finished; /* whose ends are in it */
	struct execution *running;  /* of whose events some are in it */
	int err;
	char message[256];
};

static const char *const state_names[] = {
	[KERNEL_STARTING] = "starting",
	[KERNEL_IDLE] = "idle",
	[KERNEL_BUSY] = "busy",
	[KERNEL_DEAD] = "dead",
};

struct store_txn *kernel_txn(struct kernel *k)
{
	if (!k->txn) {
		k->txn = store_txn_new(k->core->store);
		hub_turn_end(k->core->hub, &k->flush, kernel_flush, k);
	}
	return k->txn;
}

static void executions_lose(struct kernel_commit *commit)
{
	struct execution *e;

	if (commit->running && !commit->running->lost)
		commit->running->lost = commit->err;
	while ((e = commit->finished) != NULL) {
		commit->finished = e->next;
		unstored_execution(e, commit->err);
	}
}

static void commit_free(struct kernel_commit *commit)
{
	struct execution *e;

	while ((e = commit->finished) != NULL) {
		commit->finished = e->next;
		execution_unref(e);
	}
	execution_unref(commit->running);
	free(commit);
}

static void kernel_committed(void *arg)
{
	struct kernel_commit *commit = arg;
	struct kernel *k = commit->kernel;

	k->uncommitted -= commit->bytes;
	if (commit->err < 0)
		executions_lose(commit);
	if (commit->err < 0) {
		core_log("kernel %s: output could not be stored: %s", k->id, commit->message);
		if (k->sandbox)
			sandbox_end(k->sandbox,
				    commit->err == -ENOSPC ? REASON_DISK_FULL : REASON_STORE_FAILED,
				    commit->message);
	} else if (commit->seq > k->safe_seq) {
		k->safe_seq = commit->seq;
		k->unacked += commit->bytes;
		if (k->unacked >= KERNEL_ACK_BYTES)
			hub_timer_set(k->ack, 0);
		else if (!hub_timer_is_set(k->ack))
			hub_timer_set(k->ack, KERNEL_ACK_MS);
	}
	if (k->sandbox)
		kernel_unpause(k);
	kernel_unref(k);
	commit_free(commit);
}

/* On the writer's thread. */
static void on_commit(int err, const char *message, void *arg)
{
	struct kernel_commit *commit = arg;

	commit->err = err;
	snprintf(commit->message, sizeof(commit->message), "%s", message ? message : "");
	hub_post(commit->kernel->core->hub, &commit->item, kernel_committed, commit);
}

static void kernel_row_add(struct kernel *k, struct store_txn *t)
{
	struct kernel_row row = { .name = k->name,
				  .language = k->language,
				  .state = state_names[k->state],
				  .execution_count = k->execution_count,
				  .received = k->batch_seq,
				  .restarted = k->restarted,
				  .agent_id = k->agent_id };

	memcpy(row.id, k->id, sizeof(row.id));
	snprintf(row.sandbox_id, sizeof(row.sandbox_id), "%s", k->sandbox->id);
	row.sent = channel_sent(k->channel);
	store_txn_kernel(t, &row);
}

static bool kernel_must_wait(struct kernel *k)
{
	struct execution *e = k->running;

	if (store_busy(k->core->store) || k->uncommitted > KERNEL_UNCOMMITTED_MAX)
		return true;
	if ((!e || e->stop == STOP_NONE) && clients_behind(k))
		return true;
	/* An execution that is being stopped does not wait for a slow reader: the
	 * reader will be told what it missed. */
	return e && e->stop == STOP_NONE && xlog_lag(e->log) > XLOG_WINDOW_MAX / 2;
}

void kernel_unpause(struct kernel *k)
{
	bool wait = kernel_must_wait(k);

	if (wait)
		hub_timer_set(k->resume, KERNEL_RESUME_MS);
	if (wait == k->paused)
		return;
	k->paused = wait;
	channel_pause(k->channel, wait);
}

static bool any_lost(const struct kernel *k)
{
	const struct execution *e = k->finished;

	while (e && !e->lost)
		e = e->next;
	return e || (k->running && k->running->lost);
}

/* What ended goes into the commit; false: out of memory has eaten events. */
static bool finished_flush(struct kernel *k, struct store_txn *t, struct kernel_commit *commit)
{
	struct execution *e;
	bool whole = true;

	while ((e = k->finished) != NULL) {
		k->finished = e->next;
		e->kernel = NULL;
		if (e->lost) {
			/* The sandbox is ending because of it. */
			unstored_execution(e, e->lost);
			continue;
		}
		whole &= !e->events.lines.failed;
		execution_flush(e, t);
		e->next = commit->finished;
		commit->finished = e;
	}
	return whole;
}

void kernel_flush(void *arg)
{
	struct kernel *k = arg;
	struct store_txn *t = k->txn;
	struct kernel_commit *commit;
	bool whole;

	if (!t)
		return;
	k->txn = NULL;
	if (!k->sandbox) {
		store_txn_drop(t);
		return;
	}
	commit = calloc(1, sizeof(*commit));
	/* Nobody could be told whether it is stored, so nothing can go on. */
	if (!commit)
		abort();
	if (any_lost(k)) {
		/* Outputs whose beginning was not stored. */
		store_txn_drop(t);
		t = store_txn_new(k->core->store);
	}
	whole = finished_flush(k, t, commit);
	if (k->running && k->running->changed && !k->running->lost) {
		whole &= !k->running->events.lines.failed;
		execution_flush(k->running, t);
		commit->running = k->running;
		execution_ref(k->running);
	}
	kernel_row_add(k, t);
	if (!whole) {
		/* Events that do not exist must not be acknowledged as stored. */
		store_txn_drop(t);
		commit->err = -ENOMEM;
		executions_lose(commit);
		commit_free(commit);
		sandbox_end(k->sandbox, REASON_STORE_FAILED, "Out of memory on the host.");
		return;
	}
	commit->kernel = k;
	commit->seq = k->batch_seq;
	commit->bytes = k->unstored;
	k->uncommitted += commit->bytes;
	k->unstored = 0;
	kernel_ref(k);
	store_txn_lane(t, k, commit->running && !commit->finished && commit->bytes >= KERNEL_BULK);
	store_txn_submit(t, on_commit, commit);
	kernel_unpause(k);
}
