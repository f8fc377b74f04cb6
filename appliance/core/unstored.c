#include "unstored.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "execution.h"
#include "sandbox.h"
#include "times.h"

struct unstored {
	struct core *core;
	struct unstored_end *ends;
	struct hub_timer *timer;
};

static const char *id_of(const struct unstored_end *end)
{
	return end->execution ? end->execution->id : end->sandbox->id;
}

static void end_release(struct unstored_end *end)
{
	if (end->execution)
		execution_unref(end->execution);
	else
		sandbox_record_free(end->sandbox);
}

static void end_over(struct unstored_end *end)
{
	struct unstored_end **at = &end->core->unstored->ends;

	while (*at != end)
		at = &(*at)->next;
	*at = end->next;
	store_known_set(end->core->store, id_of(end), NULL);
	end_release(end);
}

static void end_committed(void *arg)
{
	struct unstored_end *end = arg;
	struct unstored *u = end->core->unstored;

	end->under_way = false;
	if (end->err == 0) {
		core_log("the end of %s is stored now", id_of(end));
		end_over(end);
	} else if (end->err == -EINVAL) {
		/* Against a rule of the tables: it would be so every time. */
		core_log("the end of %s can never be stored: %s", id_of(end), end->message);
		end_over(end);
	} else {
		if (!end->told)
			core_log("the end of %s could not be stored, this is tried again: %s", id_of(end),
				 end->message);
		end->told = true;
		if (!hub_timer_is_set(u->timer))
			hub_timer_set(u->timer, UNSTORED_RETRY_MS);
	}
}

/* On the writer's thread. */
static void on_commit(int err, const char *message, void *arg)
{
	struct unstored_end *end = arg;

	end->err = err;
	snprintf(end->message, sizeof(end->message), "%s", message ? message : "");
	hub_post(end->core->hub, &end->item, end_committed, end);
}

static json_t *execution_fields(const struct execution *e)
{
	char started[TIME_SIZE], ended[TIME_SIZE];
	json_t *fields;

	time_format(e->ended_ms, ended);
	fields = json_pack("{s:s,s:s,s:I}", "status", e->status, "ended_at", ended, "execution_count",
			   (json_int_t)e->execution_count);
	if (e->started_ms) {
		time_format(e->started_ms, started);
		json_object_set_new(fields, "started_at", json_string(started));
	}
	if (e->reason[0])
		json_object_set_new(fields, "reason", json_string(e->reason));
	if (e->signal[0])
		json_object_set_new(fields, "signal", json_string(e->signal));
	if (e->exit_code >= 0)
		json_object_set_new(fields, "exit_code", json_integer(e->exit_code));
	return fields;
}

static void end_submit(struct unstored_end *end)
{
	struct store_txn *t = store_txn_new(end->core->store);

	if (end->execution) {
		execution_end_again(end->execution, t);
		store_known_set(end->core->store, end->execution->id, execution_fields(end->execution));
	} else {
		sandbox_end_add(end->sandbox, t);
		store_known_set(end->core->store, end->sandbox->id, sandbox_end_fields(end->sandbox));
	}
	end->under_way = true;
	store_txn_submit(t, on_commit, end);
}

static void end_add(struct unstored_end *end, struct core *c)
{
	end->core = c;
	end->next = c->unstored->ends;
	c->unstored->ends = end;
	end_submit(end);
}

void unstored_execution(struct execution *e, int err)
{
	e->unstored.execution = e;
	/* The first error is the cause: what came after it lacked its place in the log. */
	if (!e->lost)
		e->lost = err;
	end_add(&e->unstored, e->core);
}

void unstored_sandbox(struct sandbox *sb)
{
	sb->unstored.sandbox = sb;
	end_add(&sb->unstored, sb->core);
}

void unstored_submit(struct core *c)
{
	struct unstored_end *end;

	for (end = c->unstored->ends; end; end = end->next) {
		if (!end->under_way)
			end_submit(end);
	}
}

static void on_timer(void *arg)
{
	struct unstored *u = arg;

	unstored_submit(u->core);
}

int unstored_new(struct core *c, struct unstored **ret)
{
	struct unstored *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->core = c;
	u->timer = hub_timer_new(c->hub, on_timer, u);
	if (!u->timer) {
		free(u);
		return -ENOMEM;
	}
	*ret = u;
	return 0;
}

void unstored_free(struct unstored *u)
{
	struct unstored_end *end;

	if (!u)
		return;
	while ((end = u->ends) != NULL) {
		u->ends = end->next;
		end_release(end);
	}
	hub_timer_free(u->timer);
	free(u);
}
