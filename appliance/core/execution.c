/* The way in: admission, the committed row, the queue; and interrupt from outside. */
#include "execution.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/ids.h"
#include "client.h"
#include "instant.h"
#include "kernel.h"
#include "link/limits.h"

void execution_ref(struct execution *e)
{
	e->refs++;
}

static void execution_free(void *arg)
{
	struct execution *e = arg;

	xlog_unref(e->log);
	json_decref(e->env);
	json_decref(e->asked);
	events_free(&e->events);
	outputs_free(&e->outputs);
	free(e->code);
	free(e);
}

void execution_unref(struct execution *e)
{
	if (!e || --e->refs > 0)
		return;
	hub_timer_free(e->timer);
	e->timer = NULL;
	/* A reader's thread may just have posted progress: posts run in order, so
	 * what is posted now runs after it. */
	xlog_on_progress(e->log, NULL, NULL);
	hub_post(e->core->hub, &e->release, execution_free, e);
}

/* On a reader's thread. */
static void on_progress(void *arg)
{
	struct execution *e = arg;

	hub_post(e->core->hub, &e->progress, execution_progress, e);
}

struct execution *execution_new(struct kernel *k, const char *id, struct xlog *log)
{
	struct execution *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	*e = (struct execution){
		.core = k->core, .kernel = k, .refs = 1, .exit_code = -1, .execution_count = -1
	};
	e->timer = hub_timer_new(k->core->hub, execution_timer, e);
	if (!e->timer) {
		free(e);
		return NULL;
	}
	snprintf(e->id, sizeof(e->id), "%s", id);
	snprintf(e->msg_id, sizeof(e->msg_id), "%s", id);
	snprintf(e->sandbox_id, sizeof(e->sandbox_id), "%s", k->sandbox->id);
	snprintf(e->kernel_id, sizeof(e->kernel_id), "%s", k->id);
	strcpy(e->status, "queued");
	outputs_init(&e->outputs, id);
	e->log = log;
	xlog_on_progress(log, on_progress, e);
	return e;
}

/* *ret NULL: the language's default kernel, which is not there yet. */
static int kernel_for(struct sandbox *sb, const struct execute_spec *spec, struct kernel **ret,
		      struct fault *f)
{
	const char *language = kernel_language(sb->from, spec->language);
	struct kernel *k;
	int err;

	if (!spec->kernel_id && !language)
		return fault_field(f, "unknown_language", "language",
				   "This template has no kernel for \"%.32s\".", spec->language);
	if (!spec->kernel_id)
		return kernel_default(sb, language, ret, f);
	k = kernel_find(sb, spec->kernel_id);
	if (!k) {
		err = fault_set(f, ENOENT, 404, "not_found", "This sandbox has no such kernel.");
		snprintf(f->field, sizeof(f->field), "kernel_id");
		return err;
	}
	if (spec->language && strcmp(spec->language, k->language) != 0)
		return fault_field(f, "unknown_language", "language", "That kernel runs %s, not %.32s.",
				   k->language, spec->language);
	*ret = k;
	return 0;
}

/* Checks without side effects: the sandbox runs, the kernel is known, the queue has room. *ret NULL: the
 * language's default kernel, which execution_submit() starts. */
static int execution_admit(struct core *c, const struct execution_waiter *w, struct kernel **ret, struct fault *f)
{
	struct sandbox *sb = sandbox_usable(c, w->owner, w->sandbox_id, f);
	struct kernel *k = NULL;
	unsigned limit;
	int err;

	if (!sb)
		return -ENOENT;
	err = kernel_for(sb, w->spec, &k, f);
	if (!err && !k)
		err = kernel_room(sb, f);
	if (err < 0)
		return err;
	limit = w->spec->asked ? CLIENT_QUEUE_MAX : KERNEL_QUEUE_MAX;
	if (k && k->queued >= limit) {
		fault_set(f, EAGAIN, 429, "queue_full", "%u executions wait for this kernel already.", limit);
		f->retry_after_s = 1;
		return -EAGAIN;
	}
	*ret = k;
	return 0;
}

static void waiter_end(struct execution_waiter *w, int err)
{
	if (w->done)
		w->done(w, err);
	else
		hub_call_end(&w->call, err);
}

void execution_asked(struct execution *e, json_t *asked)
{
	const char *msg_id = json_string_value(json_object_get(json_object_get(asked, "header"), "msg_id"));

	e->asked = json_incref(asked);
	if (msg_id)
		snprintf(e->msg_id, sizeof(e->msg_id), "%s", msg_id);
}

struct execution_commit {
	struct hub_item item;
	struct execution *e;
	int err;
	char message[256];
};

static void execution_committed(void *arg)
{
	struct execution_commit *commit = arg;
	struct execution *e = commit->e;
	struct execution_waiter *w = e->waiter;

	e->waiter = NULL;
	if (commit->err < 0) {
		core_log("execution %s was not stored: %s", e->id, commit->message);
		fault_set(&w->call.fault, -commit->err, commit->err == -ENOSPC ? 507 : 500,
			  commit->err == -ENOSPC ? "disk_full" : "store",
			  "The execution could not be stored: %s", commit->message);
		if (e->kernel && kernel_unqueue(e->kernel, e))
			execution_unref(e);
	} else if (e->state == EXECUTION_COMMITTING) {
		instant(INSTANT_EXECUTE_COMMITTED);
		e->state = EXECUTION_QUEUED;
		kernel_pump(e->kernel);
	}
	waiter_end(w, commit->err);
	execution_unref(e);
	free(commit);
}

/* On the writer's thread. */
static void on_commit(int err, const char *message, void *arg)
{
	struct execution_commit *commit = arg;

	commit->err = err;
	snprintf(commit->message, sizeof(commit->message), "%s", message ? message : "");
	hub_post(commit->e->core->hub, &commit->item, execution_committed, commit);
}

static void execution_store_new(struct execution *e, struct execution_commit *commit)
{
	struct store_txn *t = store_txn_new(e->core->store);
	json_t *detail = json_pack("{s:s,s:s}", "execution_id", e->id, "kernel_id", e->kernel_id);

	/* Its client hears first of what it says, which is committed after it. */
	if (e->events.lines.len == 0)
		store_txn_soft(t);
	execution_flush(e, t);
	store_txn_audit(t, e->kernel->sandbox->owner, e->sandbox_id, "execute", detail);
	json_decref(detail);
	commit->e = e;
	execution_ref(e);
	store_txn_lane(t, e->kernel, false);
	store_txn_submit(t, on_commit, commit);
}

void execution_submit(struct execution_waiter *w)
{
	struct execution_commit *commit = calloc(1, sizeof(*commit));
	struct kernel *k = NULL;
	struct execution *e;
	int err = execution_admit(w->core, w, &k, &w->call.fault);

	if (!err && !k) {
		struct sandbox *sb = sandbox_find(w->core, w->owner, w->sandbox_id);

		err = kernel_default_start(sb, kernel_language(sb->from, w->spec->language), &k, &w->call.fault);
	}
	e = !err && commit ? execution_new(k, w->id, w->log) : NULL;
	if (e) {
		e->code = strdup(w->spec->code);
		e->env = json_incref(w->spec->env);
		if (w->spec->asked)
			execution_asked(e, w->spec->asked);
	}
	if (!e || !e->code) {
		if (!err)
			err = fault_set(&w->call.fault, ENOMEM, 503, "capacity", "Out of memory; try again.");
		free(commit);
		waiter_end(w, err);
		return;
	}
	/* From here on the log belongs to the execution. */
	w->log = NULL;
	e->waiter = w;
	e->timeout_s = w->spec->timeout_s;
	e->queued_ms = unix_ms();
	kernel_queue(k, e);
	execution_store_new(e, commit);
}

struct execution *execution_find(struct core *c, const char *owner, const char *id)
{
	struct sandbox *sb;
	struct kernel *k;
	struct execution *e;

	for (sb = c->sandboxes; sb; sb = sb->next) {
		if (owner && strcmp(sb->owner, owner) != 0)
			continue;
		for (k = sb->kernels; k; k = k->next) {
			if (k->running && strcmp(k->running->id, id) == 0)
				return k->running;
			for (e = k->queue; e; e = e->next) {
				if (strcmp(e->id, id) == 0)
					return e;
			}
		}
	}
	return NULL;
}

void execution_interrupt(struct execution *e)
{
	if (e->state != EXECUTION_RUNNING) {
		execution_end(e, "cancelled", NULL);
		return;
	}
	if (e->stop == STOP_NONE)
		e->stop = STOP_INTERRUPT;
	kernel_interrupt(e->kernel);
}
