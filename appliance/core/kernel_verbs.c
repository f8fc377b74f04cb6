/* Start, restart and deletion of a kernel, asked for from outside: what becomes
 * of its cells, and who is told when. Callers hear of it after the commit. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/audit.h"
#include "buf.h"
#include "client.h"
#include "kernel.h"

enum {
	/* The agent lets a kernel end by itself for two seconds, then kills it; the
	 * rest is a loaded host under software emulation. */
	KERNEL_DELETE_MS = 30 * 1000,
};

/* --- who waits --- */

void kernel_wait(struct kernel *k, enum kernel_wait what, struct kernel_waiter *w)
{
	w->what = what;
	w->next = k->waiters;
	k->waiters = w;
}

static struct kernel_waiter *waiters_take(struct kernel *k, enum kernel_wait what)
{
	struct kernel_waiter **at = &k->waiters, *w, *taken = NULL;

	while ((w = *at) != NULL) {
		if (w->what != what) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = taken;
		taken = w;
	}
	return taken;
}

static void waiters_refuse(struct kernel *k, enum kernel_wait what, const struct fault *f, int err)
{
	struct kernel_waiter *w = waiters_take(k, what), *next;

	for (; w; w = next) {
		next = w->next;
		w->call.fault = *f;
		hub_call_end(&w->call, err);
	}
}

struct kernel_answer {
	struct hub_item item;
	struct hub *hub;
	struct kernel_waiter *waiters;
	int err;
	char message[256];
};

static void answer_committed(void *arg)
{
	struct kernel_answer *answer = arg;
	struct kernel_waiter *w, *next;

	for (w = answer->waiters; w; w = next) {
		next = w->next;
		if (answer->err < 0)
			fault_set(&w->call.fault, -answer->err, answer->err == -ENOSPC ? 507 : 500,
				  answer->err == -ENOSPC ? "disk_full" : "store",
				  "The kernel's state could not be stored: %s", answer->message);
		hub_call_end(&w->call, answer->err);
	}
	free(answer);
}

/* On the writer's thread. */
static void on_answer_commit(int err, const char *message, void *arg)
{
	struct kernel_answer *answer = arg;

	answer->err = err;
	snprintf(answer->message, sizeof(answer->message), "%s", message ? message : "");
	hub_post(answer->hub, &answer->item, answer_committed, answer);
}

/* Submits t; who waits for it is told at its commit. */
static void waiters_tell(struct kernel *k, enum kernel_wait what, struct store_txn *t)
{
	struct kernel_answer *answer = calloc(1, sizeof(*answer));
	struct kernel_waiter *w;
	struct fault f;

	if (!answer) {
		int err = fault_no_memory(&f);

		store_txn_submit(t, NULL, NULL);
		waiters_refuse(k, what, &f, err);
		return;
	}
	answer->hub = k->core->hub;
	answer->waiters = waiters_take(k, what);
	for (w = answer->waiters; w && what != KERNEL_WAIT_GONE; w = w->next)
		w->result = kernel_json(k);
	store_txn_submit(t, on_answer_commit, answer);
}

static struct store_txn *kernel_audit(const struct kernel *k, enum kernel_wait what, const char *action)
{
	struct store_txn *t = store_txn_new(k->core->store);
	json_t *detail = json_pack("{s:s,s:s}", "kernel_id", k->id, "language", k->language);
	const struct kernel_waiter *w = k->waiters;

	while (w && w->what != what)
		w = w->next;
	store_txn_audit_by(t, w ? w->call.by : NULL, k->sandbox->owner, k->sandbox->id, action, "ok", detail);
	json_decref(detail);
	return t;
}

void kernel_waiters_end(struct kernel *k)
{
	struct fault f = { 0 };
	int err = fault_set(&f, EBUSY, 409, "wrong_state", "The sandbox ended meanwhile.");

	waiters_refuse(k, KERNEL_WAIT_START, &f, err);
	waiters_refuse(k, KERNEL_WAIT_RESTART, &f, err);
	/* What was to be gone is. */
	waiters_refuse(k, KERNEL_WAIT_GONE, &f, 0);
}

void kernel_waiters_paused(struct kernel *k)
{
	struct fault f = { 0 };
	int err = fault_set(&f, EBUSY, 409, "wrong_state",
			    "The sandbox was paused meanwhile; this goes on when it is resumed.");

	waiters_refuse(k, KERNEL_WAIT_START, &f, err);
	waiters_refuse(k, KERNEL_WAIT_RESTART, &f, err);
	waiters_refuse(k, KERNEL_WAIT_GONE, &f, err);
}

/* --- the end of what it has to do --- */

static void queue_end(struct kernel *k, const char *reason)
{
	while (k->queue)
		execution_end(k->queue, "cancelled", reason);
}

static void kernel_remove(struct kernel *k)
{
	struct sandbox *sb = k->sandbox;
	struct kernel **at = &sb->kernels;
	struct store_txn *t;
	struct fault f = { 0 };
	int err = fault_set(&f, EBUSY, 409, "wrong_state", "The kernel was deleted meanwhile.");

	if (k->running)
		execution_end(k->running, "died", REASON_KERNEL_DELETED);
	queue_end(k, REASON_KERNEL_DELETED);
	kernel_flush(k);
	t = kernel_audit(k, KERNEL_WAIT_GONE, "kernel_delete");
	store_txn_kernel_gone(t, k->id);
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	clients_end(k, CLIENT_KERNEL_GONE);
	k->sandbox = NULL;
	waiters_refuse(k, KERNEL_WAIT_START, &f, err);
	waiters_refuse(k, KERNEL_WAIT_RESTART, &f, err);
	waiters_tell(k, KERNEL_WAIT_GONE, t);
	kernel_unref(k);
}

/* In a turn of its own, never inside a callback of the link or a channel. */
static void kernel_settle(void *arg)
{
	struct kernel *k = arg;

	if (k->sandbox && k->sandbox->state == SANDBOX_RUNNING) {
		if (k->gone) {
			kernel_remove(k);
		} else if (!k->restart_wanted) {
			/* Who is told that it was restarted finds its cells ended, and the row says it. */
			kernel_txn(k);
			kernel_flush(k);
			waiters_tell(k, KERNEL_WAIT_RESTART, kernel_audit(k, KERNEL_WAIT_RESTART, "kernel_restart"));
		}
	}
	kernel_unref(k);
}

static void kernel_settle_post(struct kernel *k)
{
	if (!k->settle.queued)
		kernel_ref(k);
	hub_post(k->core->hub, &k->settle, kernel_settle, k);
}

void kernel_is_gone(struct kernel *k)
{
	k->stopping = k->gone = true;
	kernel_settle_post(k);
}

/* --- start --- */

/* A word from the guest that goes into rows and to people. */
static bool word_ok(const char *word)
{
	size_t len =
		word ? strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+.#")
		     : 0;

	return len > 0 && len < KERNEL_NAME_MAX && !word[len];
}

/* What it was not asked for by is the agent's to say. */
static void kernel_words(struct kernel *k, json_t *kernel)
{
	const char *name = json_string_value(json_object_get(kernel, "name"));
	const char *language = json_string_value(json_object_get(kernel, "language"));

	if (!k->by_name && word_ok(name))
		snprintf(k->name, sizeof(k->name), "%s", name);
	if (k->by_name && word_ok(language))
		snprintf(k->language, sizeof(k->language), "%s", language);
}

bool kernel_named(struct kernel *k, json_t *kernels)
{
	json_t *one;
	size_t i;

	json_array_foreach(kernels, i, one)
	{
		const char *id = json_string_value(json_object_get(one, "id"));

		if (!id || strcmp(id, k->agent_id) != 0)
			continue;
		kernel_words(k, one);
		return true;
	}
	return false;
}

static void kernel_started(struct kernel *k, bool now)
{
	k->exists = true;
	k->alive_due = now;
	if (k->stopping) {
		kernel_delete(k);
		return;
	}
	kernel_txn(k);
	kernel_flush(k);
	waiters_tell(k, KERNEL_WAIT_START, kernel_audit(k, KERNEL_WAIT_START, "kernel_create"));
}

/* What the client can do about it, if it is for the client to do. */
static int start_fault(const struct kernel *k, struct fault *f, int err, int status, json_t *reply)
{
	const char *message = json_string_value(json_object_get(reply, "message"));

	err = guest_fault(f, err, status, reply);
	if (strcmp(f->code, "bad_request") == 0 && k->by_name)
		return fault_field(f, "unknown_kernel", "name",
				   "This template has no kernel named \"%.32s\".", k->name);
	if (strcmp(f->code, "bad_request") == 0)
		return fault_field(f, "unknown_language", "language",
				   "This template has no kernel for \"%.32s\".", k->language);
	if (k->cwd && strcmp(f->code, "kernel_start") == 0 && message && strstr(message, "working directory"))
		return fault_field(f, "bad_cwd", "cwd",
				   "The kernel cannot be started in \"%.128s\"; name a folder that is there.",
				   k->cwd);
	return err;
}

static void kernel_refused(struct kernel *k, int err, int status, json_t *reply)
{
	struct fault f = { 0 };

	err = start_fault(k, &f, err, status, reply);
	if (k->essential) {
		sandbox_end(k->sandbox, REASON_KERNEL_FAILED, f.message);
		return;
	}
	core_log("kernel %s of sandbox %s did not start: %s", k->id, k->sandbox->id, f.message);
	waiters_refuse(k, KERNEL_WAIT_START, &f, err);
	k->stopping = true;
	/* Handed over to a process that never was. */
	if (k->running)
		execution_end(k->running, "cancelled", REASON_KERNEL_FAILED);
	queue_end(k, REASON_KERNEL_FAILED);
	kernel_is_gone(k);
}

static void kernel_looked_up(int err, int status, json_t *reply, void *arg)
{
	struct kernel *k = arg;

	k->creating = false;
	if (k->sandbox && err == 0 && status == 200 && kernel_named(k, json_object_get(reply, "kernels"))) {
		kernel_started(k, false);
		if (!k->stopping)
			kernel_attach(k);
	} else if (k->sandbox && err != -ECONNRESET && err != -ECANCELED) {
		kernel_refused(k, err, status, reply);
	}
	kernel_unref(k);
}

/* It was made before the link, or an earlier carreld, was cut off from the answer. */
static void kernel_look_up(struct kernel *k)
{
	if (guest_call(k->sandbox->guest, "GET", "/kernels", NULL, GUEST_CALL_MS, kernel_looked_up, k) < 0)
		return;
	k->creating = true;
	kernel_ref(k);
}

void kernel_create_answered(struct kernel *k, int err, int status, json_t *reply)
{
	const char *code = json_string_value(json_object_get(reply, "code"));

	/* Cut on the way: asked again when the link is back. */
	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (err == 0 && status == 201) {
		kernel_words(k, reply);
		kernel_started(k, true);
	} else if (err == 0 && status == 409 && code && strcmp(code, "exists") == 0) {
		kernel_look_up(k);
	} else {
		kernel_refused(k, err, status, reply);
	}
}

/* --- restart --- */

void kernel_restart_wanted(struct kernel *k)
{
	k->restart_wanted = true;
	k->restart_answered = false;
	if (k->running && k->running->stop != STOP_TIMEOUT && k->running->stop != STOP_OUTPUT)
		k->running->stop = STOP_RESTART;
	queue_end(k, REASON_KERNEL_RESTARTED);
	kernel_unpause(k);
	kernel_restart(k);
}

void kernel_restart_check(struct kernel *k)
{
	if (!k->restart_wanted || k->restarting || !k->restart_answered || k->stopping)
		return;
	if (k->restart_again) {
		/* Once the next process can be given the code that is to end. */
		if (k->state != KERNEL_IDLE && k->state != KERNEL_BUSY)
			return;
		k->restart_again = k->restart_answered = false;
		kernel_restart(k);
		return;
	}
	/* Its end comes over the channel. */
	if (k->running && k->running->stop == STOP_RESTART)
		return;
	k->restart_wanted = k->restart_answered = false;
	/* The frame that says so may still be on its way; the next cell's come after it. */
	k->restarted = true;
	k->execution_count = 0;
	kernel_settle_post(k);
}

void kernel_restart_failed(struct kernel *k, int err, int status, json_t *reply)
{
	struct fault f = { 0 };

	err = guest_fault(&f, err, status, reply);
	core_log("kernel %s of sandbox %s was not restarted: %s", k->id, k->sandbox->id, f.message);
	k->restart_wanted = k->restart_again = false;
	waiters_refuse(k, KERNEL_WAIT_RESTART, &f, err);
	/* One that is dead cannot serve them, and each try would be the same again. */
	if (k->state == KERNEL_DEAD)
		queue_end(k, REASON_KERNEL_FAILED);
}

/* --- deletion --- */

static void kernel_deleted(int err, int status, json_t *reply, void *arg)
{
	struct kernel *k = arg;
	struct fault f = { 0 };

	k->deleting = false;
	if (k->sandbox && err == 0 && (status == 204 || status == 404)) {
		kernel_is_gone(k);
	} else if (k->sandbox && err != -ECONNRESET && err != -ECANCELED) {
		err = guest_fault(&f, err, status, reply);
		/* It is still there, and can be deleted again. */
		k->stopping = false;
		waiters_refuse(k, KERNEL_WAIT_GONE, &f, err);
	}
	kernel_unref(k);
}

void kernel_delete(struct kernel *k)
{
	__attribute__((cleanup(buf_free))) struct buf path = { 0 };

	k->stopping = true;
	if (k->running)
		execution_end(k->running, "died", REASON_KERNEL_DELETED);
	queue_end(k, REASON_KERNEL_DELETED);
	/* Its start is under way: deleted when that is over. */
	if (k->creating || k->deleting)
		return;
	if (!k->exists) {
		kernel_is_gone(k);
		return;
	}
	buf_add_str(&path, "/kernels/");
	buf_add_url(&path, k->agent_id);
	/* Without a link: when it is back. */
	if (!path.failed && guest_call(k->sandbox->guest, "DELETE", path.bytes, NULL, KERNEL_DELETE_MS,
				       kernel_deleted, k) == 0) {
		k->deleting = true;
		kernel_ref(k);
	}
}
