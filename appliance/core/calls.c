/* The public calls on sandboxes, executions, files and processes: each is a
 * closure on the hub that the calling worker waits for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/audit.h"
#include "../store/ids.h"
#include "execution.h"
#include "kernel.h"
#include "process.h"
#include "sandbox.h"
#include "times.h"
#include "transfer.h"

int refine_missing(struct core *c, const char *owner, const char *id, int err, struct fault *f)
{
	json_t *row;
	const char *reason;

	if (err != -ENOENT || strcmp(f->code, "not_found") != 0 || f->field[0] ||
	    store_sandbox_get(c->store, owner, id, &row) < 0)
		return err;
	reason = json_string_value(json_object_get(row, "end_reason"));
	err = fault_set(f, EBUSY, 409, "wrong_state", "The sandbox has ended (%.64s).",
			reason ? reason : "unknown");
	json_decref(row);
	return err;
}

/* --- sandboxes --- */

static void create_run(struct hub_call *call)
{
	struct sandbox_waiter *w = (struct sandbox_waiter *)call;

	sandbox_create(w->core, w);
}

int core_sandbox_create(struct core *c, const char *owner, const struct sandbox_spec *spec, json_t **ret,
			struct fault *f)
{
	struct sandbox_spec full = *spec; /* limits are filled in */
	struct sandbox_waiter w = { .core = c, .owner = owner, .spec = &full };
	int err = store_owner_quota(c->store, owner, c->settings->sandboxes_per_owner, &w.quota);

	if (err < 0)
		return fault_set(f, -err, 500, "store", "The owner's quota could not be read: %s.",
				 strerror(-err));
	if (spec->snapshot) {
		err = core_snapshot_start(c, &w, f);
	} else {
		err = hub_call(c->hub, &w.call, create_run);
		if (err < 0)
			*f = w.call.fault;
	}
	if (err < 0) {
		json_decref(w.result);
		return err;
	}
	*ret = w.result;
	return 0;
}

static void on_timeout_stored(void *arg)
{
	struct hub_call *call = arg;

	hub_call_end(call, call->err);
}

/* On the writer's thread. */
static void on_timeout_commit(int err, const char *message, void *arg)
{
	struct sandbox_waiter *w = arg;

	if (err < 0)
		fault_set(&w->call.fault, -err, err == -ENOSPC ? 507 : 500,
			  err == -ENOSPC ? "disk_full" : "store", "The deadline could not be stored: %s",
			  message);
	w->call.err = err;
	hub_post(w->core->hub, &w->call.item, on_timeout_stored, &w->call);
}

static void timeout_run(struct hub_call *call)
{
	struct sandbox_waiter *w = (struct sandbox_waiter *)call;
	struct sandbox *sb = sandbox_usable(w->core, w->owner, w->id, &call->fault);

	if (!sb) {
		hub_call_end(call, strcmp(call->fault.code, "not_found") == 0 ? -ENOENT : -EBUSY);
		return;
	}
	sandbox_keep(sb, w->timeout_s);
	w->result = sandbox_json(sb);
	sandbox_store(sb, on_timeout_commit, w);
}

int core_sandbox_timeout(struct core *c, const char *owner, const char *id, unsigned timeout_s, json_t **ret,
			 struct fault *f)
{
	struct sandbox_waiter w = { .core = c, .owner = owner, .id = id, .timeout_s = timeout_s };
	int err;

	do
		err = hub_call(c->hub, &w.call, timeout_run);
	while (err < 0 && core_settle(c, owner, id, NULL, false, &w.call.fault));
	if (err < 0) {
		json_decref(w.result);
		*f = w.call.fault;
		return refine_missing(c, owner, id, err, f);
	}
	*ret = w.result;
	return 0;
}

static void delete_run(struct hub_call *call)
{
	struct sandbox_waiter *w = (struct sandbox_waiter *)call;
	struct sandbox *sb = sandbox_find(w->core, w->owner, w->id);
	struct store_txn *t;

	if (!sb) {
		hub_call_end(call,
			     fault_set(&call->fault, ENOENT, 404, "not_found", "There is no such sandbox."));
		return;
	}
	t = store_txn_new(w->core->store);
	store_txn_audit(t, sb->owner, sb->id, "sandbox_delete", NULL);
	store_txn_submit(t, NULL, NULL);
	w->next = sb->gone;
	sb->gone = w;
	sandbox_end(sb, REASON_ASKED, "");
}

int core_sandbox_delete(struct core *c, const char *owner, const char *id, struct fault *f)
{
	struct sandbox_waiter w = { .core = c, .owner = owner, .id = id };
	json_t *row;
	int err = hub_call(c->hub, &w.call, delete_run);

	/* An ended one of yours is as gone as can be. */
	if (err == -ENOENT && store_sandbox_get(c->store, owner, id, &row) == 0) {
		json_decref(row);
		return 0;
	}
	if (err < 0)
		*f = w.call.fault;
	return err;
}

/* --- executions --- */

static void submit_run(struct hub_call *call)
{
	execution_submit((struct execution_waiter *)call);
}

int core_execute(struct core *c, const char *owner, const char *sandbox_id, const struct execute_spec *spec,
		 char ret_id[STORE_ID_MAX], struct xlog **ret_log, struct fault *f)
{
	char id[STORE_ID_MAX];
	struct execution_waiter w = {
		.core = c, .owner = owner, .sandbox_id = sandbox_id, .id = id, .spec = spec
	};
	struct xlog *log;
	int err;

	id_new("exe", id);
	err = xlog_open(c->settings->state, id, true, 0, 0, false, &log);
	if (err < 0)
		return fault_set(f, -err, err == -ENOSPC ? 507 : 500, err == -ENOSPC ? "disk_full" : "store",
				 "The execution's event log could not be made: %s.", strerror(-err));
	w.log = log;
	xlog_ref(log);
	do
		err = hub_call(c->hub, &w.call, submit_run);
	while (err < 0 && core_settle(c, owner, sandbox_id, NULL, true, &w.call.fault));
	if (err < 0) {
		xlog_unref(w.log);
		xlog_unref(log);
		*f = w.call.fault;
		return refine_missing(c, owner, sandbox_id, err, f);
	}
	memcpy(ret_id, id, STORE_ID_MAX);
	*ret_log = log;
	return 0;
}

static void interrupt_run(struct hub_call *call)
{
	struct execution_waiter *w = (struct execution_waiter *)call;
	struct execution *e = execution_find(w->core, w->owner, w->id);

	if (!e) {
		hub_call_end(call, fault_set(&call->fault, ENOENT, 404, "not_found",
					     "There is no such execution."));
		return;
	}
	execution_interrupt(e);
	hub_call_end(call, 0);
}

int core_execution_interrupt(struct core *c, const char *owner, const char *id, struct fault *f)
{
	struct execution_waiter w = { .core = c, .owner = owner, .id = id };
	int err = hub_call(c->hub, &w.call, interrupt_run);
	json_t *row;

	/* One that is over already has nothing left to interrupt. */
	if (err == -ENOENT && store_execution_get(c->store, owner, id, &row) == 0) {
		json_decref(row);
		return 0;
	}
	if (err < 0)
		*f = w.call.fault;
	return err;
}

/* --- files --- */

/* Committed before the client hears of it, where a crash of carreld leaves it: a transfer does not wait for the
 * disk. bytes < 0: none are told of. A full disk does not keep files inside: what was moved is only logged then. */
static void file_audit(struct core *c, const struct file_move *m, const char *action, const char *result,
		       int64_t bytes)
{
	struct store_txn *t = store_txn_new(c->store);
	json_t *detail = json_pack("{s:s}", "path", m->path);
	struct fault f;

	if (bytes >= 0)
		json_object_set_new(detail, "bytes", json_integer(bytes));
	store_txn_soft(t);
	store_txn_audit_by(t, audit_asker(), m->owner, m->sandbox_id, action, result, detail);
	json_decref(detail);
	if (store_txn_wait(t, &f) < 0)
		core_log("audit: %s of %s in %s is not in it: %s", action, m->path, m->sandbox_id, f.message);
}

static void put_run(struct hub_call *call)
{
	transfer_put_begin((struct transfer_waiter *)call);
}

int core_file_put_begin(struct core *c, const char *owner, const char *sandbox_id, const char *path,
			struct file_put **ret, struct bytepipe **ret_in, struct fault *f)
{
	struct file_put *put = calloc(1, sizeof(*put));
	struct transfer_waiter w = {
		.core = c, .owner = owner, .sandbox_id = sandbox_id, .path = path, .put = put
	};
	int err;

	if (!put)
		return fault_set(f, ENOMEM, 503, "capacity", "Out of memory on the host.");
	put->core = c;
	put->move = (struct file_move){ .owner = owner, .sandbox_id = sandbox_id, .path = path };
	do
		err = hub_call(c->hub, &w.call, put_run);
	while (err < 0 && core_settle(c, owner, sandbox_id, NULL, true, &w.call.fault));
	if (err < 0) {
		free(put);
		*f = w.call.fault;
		return refine_missing(c, owner, sandbox_id, err, f);
	}
	*ret = put;
	*ret_in = w.pipe;
	return 0;
}

int core_file_put_finish(struct file_put *h, json_t **ret, bool *ret_created, struct fault *f)
{
	int err = hub_call(h->core->hub, &h->call, transfer_put_finish);

	file_audit(h->core, &h->move, "file_put", err < 0 ? h->call.fault.code : "ok",
		   err < 0 ? -1 : json_integer_value(json_object_get(h->reply, "size")));
	if (err < 0) {
		*f = h->call.fault;
		json_decref(h->reply);
	} else {
		*ret = h->reply;
		*ret_created = h->status == 201;
	}
	free(h);
	return err;
}

static void get_run(struct hub_call *call)
{
	transfer_get((struct transfer_waiter *)call);
}

int core_file_get(struct core *c, const char *owner, const char *sandbox_id, const char *path,
		  struct bytepipe **out, int64_t *ret_size, struct fault *f)
{
	struct transfer_waiter w = { .core = c, .owner = owner, .sandbox_id = sandbox_id, .path = path };
	int err;

	do
		err = hub_call(c->hub, &w.call, get_run);
	while (err < 0 && core_settle(c, owner, sandbox_id, NULL, true, &w.call.fault));
	if (err < 0) {
		*f = w.call.fault;
		return refine_missing(c, owner, sandbox_id, err, f);
	}
	file_audit(c, &(struct file_move){ owner, sandbox_id, path }, "file_get", "ok", w.size);
	*out = w.pipe;
	*ret_size = w.size;
	return 0;
}

static void file_delete_run(struct hub_call *call)
{
	transfer_delete((struct transfer_waiter *)call);
}

int core_file_delete(struct core *c, const char *owner, const char *sandbox_id, const char *path,
		     bool recursive, struct fault *f)
{
	struct transfer_waiter w = {
		.core = c, .owner = owner, .sandbox_id = sandbox_id, .path = path, .recursive = recursive
	};
	int err;

	do
		err = hub_call(c->hub, &w.call, file_delete_run);
	while (err < 0 && core_settle(c, owner, sandbox_id, NULL, true, &w.call.fault));
	if (err < 0) {
		*f = w.call.fault;
		return refine_missing(c, owner, sandbox_id, err, f);
	}
	file_audit(c, &(struct file_move){ owner, sandbox_id, path }, "file_delete", "ok", -1);
	return 0;
}

static void file_list_run(struct hub_call *call)
{
	transfer_list((struct transfer_waiter *)call);
}

int core_file_list(struct core *c, const char *owner, const char *sandbox_id, const char *path,
		   unsigned limit, const char *cursor, json_t **ret, struct fault *f)
{
	struct transfer_waiter w = { .core = c,
				     .owner = owner,
				     .sandbox_id = sandbox_id,
				     .path = path,
				     .limit = limit,
				     .cursor = cursor };
	int err;

	do
		err = hub_call(c->hub, &w.call, file_list_run);
	while (err < 0 && core_settle(c, owner, sandbox_id, NULL, true, &w.call.fault));
	if (err < 0) {
		*f = w.call.fault;
		return refine_missing(c, owner, sandbox_id, err, f);
	}
	*ret = w.result;
	return 0;
}

/* --- processes --- */

static void process_start_run(struct hub_call *call)
{
	process_run((struct process_waiter *)call);
}

int core_process_run(struct core *c, const char *owner, const char *sandbox_id,
		     const struct process_spec *spec, struct bytepipe **out, struct fault *f)
{
	struct process_waiter w = { .core = c, .owner = owner, .sandbox_id = sandbox_id, .spec = spec };
	int err;

	do
		err = hub_call(c->hub, &w.call, process_start_run);
	while (err < 0 && core_settle(c, owner, sandbox_id, NULL, true, &w.call.fault));
	if (err < 0) {
		*f = w.call.fault;
		return refine_missing(c, owner, sandbox_id, err, f);
	}
	*out = w.pipe;
	return 0;
}
