#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/ids.h"
#include "jupyter.h"
#include "times.h"
#include "process_inner.h"

/* An 'X' frame: a handful of words. */
enum { EXIT_FRAME_MAX = 4096, EXIT_VALUES_MAX = 16, EXIT_DEPTH_MAX = 4, OUTPUT_FRAME_MAX = 64 * 1024 };

static void process_free(void *arg)
{
	struct process *p = arg;

	channel_free(p->channel);
	events_free(&p->events);
	free(p->input);
	free(p);
}

static void process_unlist(struct process *p)
{
	struct process **at = p->sandbox ? &p->sandbox->processes : NULL;

	while (at && *at != p)
		at = &(*at)->next;
	if (at)
		*at = p->next;
	p->sandbox = NULL;
}

void process_leave(struct process *p)
{
	if (p->leaving)
		return;
	p->leaving = true;
	if (p->exited) {
		struct store_txn *t = store_txn_new(p->store);

		store_txn_process_gone(t, p->id);
		store_txn_submit(t, NULL, NULL);
	}
	process_unlist(p);
	if (p->pipe)
		bytepipe_hub_close(p->pipe, NULL);
	p->pipe = NULL;
	hub_timer_free(p->timer);
	hub_timer_free(p->linger);
	if (!p->asked)
		hub_post(p->hub, &p->release, process_free, p);
}

static void ignore_answer(int err, int status, json_t *reply, void *arg)
{
	(void)err;
	(void)status;
	(void)reply;
	(void)arg;
}

/* Nothing of it is left to end, or it ends with what it is in. */
static bool process_is_over(const struct process *p, int err)
{
	return p->exited || err == -ECANCELED || p->sandbox->state >= SANDBOX_ENDING;
}

static void on_forgotten(int err, int status, json_t *reply, void *arg)
{
	struct process *p = arg;

	(void)reply;
	p->asked = false;
	p->exited = err == 0 && (status == 204 || status == 404);
	if (p->leaving)
		hub_post(p->hub, &p->release, process_free, p);
	else if (process_is_over(p, err))
		process_leave(p);
	/* else the link was cut: again when it is back */
}

void process_abandon(struct process *p)
{
	char path[STORE_ID_MAX + 32];

	p->abandoned = true;
	if (p->pipe)
		bytepipe_hub_close(p->pipe, NULL);
	p->pipe = NULL;
	if (p->timer)
		hub_timer_stop(p->timer);
	channel_free(p->channel);
	p->channel = NULL;
	snprintf(path, sizeof(path), "/processes/%s", p->id);
	if (!p->asked &&
	    guest_call(p->sandbox->guest, "DELETE", path, NULL, GUEST_CALL_MS, on_forgotten, p) == 0)
		p->asked = true;
}

static void on_linger(void *arg)
{
	process_leave(arg);
}

/* --- the agent's frames --- */

static void process_exited(struct process *p, const uint8_t *payload, size_t len)
{
	json_t *exit = NULL;

	if (len <= EXIT_FRAME_MAX)
		exit = json_parse_bounded((const char *)payload, len, EXIT_VALUES_MAX, EXIT_DEPTH_MAX);
	p->exited = json_is_object(exit);
	if (p->exited)
		process_end(p, exit, NULL);
	else
		sandbox_end(p->sandbox, REASON_PROTOCOL,
			    "The sandbox's agent sent a process's end that is none.");
	json_decref(exit);
}

static void on_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		     void *arg)
{
	struct process *p = arg;

	if (p->leaving || p->ended)
		return;
	if ((type == 'O' || type == 'E') && len <= OUTPUT_FRAME_MAX)
		process_output(p, type == 'E', (const char *)payload, len);
	else if (type == 'X')
		process_exited(p, payload, len);
	else
		sandbox_end(p->sandbox, REASON_PROTOCOL,
			    "The sandbox's agent sent a process frame that is none.");
	/* Output lives in the reader's hands, not in the store: given is safe. */
	channel_ack(c, seq);
	process_push(p);
}

static void on_gap(struct channel *c, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
		   void *arg)
{
	struct process *p = arg;

	(void)first;
	if (p->leaving || p->ended)
		return;
	events_add(&p->events, "gap",
		   json_pack("{s:I,s:I}", "messages", (json_int_t)frames, "bytes", (json_int_t)bytes));
	channel_ack(c, last);
	process_push(p);
}

static void process_input(struct process *p)
{
	while (p->input_at < p->input_len && !channel_full(p->channel)) {
		size_t n = p->input_len - p->input_at;

		if (n > PROCESS_INPUT_FRAME)
			n = PROCESS_INPUT_FRAME;
		if (channel_send(p->channel, 'I', true, p->input + p->input_at, n) < 0)
			return;
		p->input_at += n;
	}
	if (p->input && p->input_at == p->input_len && !p->input_closed)
		p->input_closed = channel_send(p->channel, 'C', true, NULL, 0) > 0;
}

static void on_drained(struct channel *c, void *arg)
{
	(void)c;
	process_input(arg);
}

static void on_attached(struct channel *c, void *arg)
{
	(void)c;
	process_input(arg);
}

static void on_detached(struct channel *c, int err, int status, void *arg)
{
	struct process *p = arg;

	(void)c;
	if (p->leaving)
		return;
	if (p->ended) {
		/* The agent heard that its last frame is safe. */
		if (!p->pipe)
			process_leave(p);
	} else if (err == -EPROTO) {
		sandbox_end(p->sandbox, REASON_PROTOCOL,
			    "The sandbox's agent broke the framing of a process's channel.");
	} else if (status == 404) {
		p->exited = true;
		process_end(p, NULL, "lost");
		process_push(p);
	}
}

static const struct channel_ops channel_ops = { .frame = on_frame,
						.gap = on_gap,
						.drained = on_drained,
						.attached = on_attached,
						.detached = on_detached };

/* --- start --- */

static void process_attach(struct process *p)
{
	char path[STORE_ID_MAX + 32];

	snprintf(path, sizeof(path), "/processes/%s/channel", p->id);
	channel_connect(p->channel, guest_link(p->sandbox->guest), path);
}

static void on_timeout(void *arg)
{
	struct process *p = arg;
	char path[STORE_ID_MAX + 32];
	json_t *body;

	if (p->killing) {
		sandbox_end(p->sandbox, REASON_PROTOCOL,
			    "The sandbox's agent did not end a process that ran past its time.");
		return;
	}
	p->timed_out = p->killing = true;
	hub_timer_set(p->timer, PROCESS_KILL_MS);
	body = json_pack("{s:i}", "signal", SIGKILL);
	snprintf(path, sizeof(path), "/processes/%s/signal", p->id);
	guest_call(p->sandbox->guest, "POST", path, body, GUEST_CALL_MS, ignore_answer, NULL);
	json_decref(body);
}

static void process_refused(struct process *p, int err)
{
	struct process_waiter *w = p->waiter;

	p->waiter = NULL;
	bytepipe_worker_close(p->pipe, NULL);
	/* Cut off from the answer, it may have been started. */
	if (process_is_over(p, err))
		process_leave(p);
	else
		process_abandon(p);
	hub_call_end(&w->call, err);
}

static void on_created(int err, int status, json_t *reply, void *arg)
{
	struct process *p = arg;
	struct process_waiter *w = p->waiter;

	p->asked = false;
	if (p->leaving) {
		hub_post(p->hub, &p->release, process_free, p);
		return;
	}
	if (err < 0 || status != 201) {
		p->exited = err == 0;
		err = guest_fault(&w->call.fault, err, status, reply);
		if (w->spec->cwd && err == -EINVAL && strstr(w->call.fault.message, "working directory"))
			snprintf(w->call.fault.field, sizeof(w->call.fault.field), "cwd");
		process_refused(p, err);
		return;
	}
	p->exists = true;
	p->waiter = NULL;
	p->began_ms = mono_ms();
	events_add(&p->events, "started",
		   json_pack("{s:I}", "pid", json_integer_value(json_object_get(reply, "pid"))));
	bytepipe_on_change(p->pipe, process_pipe_changed, p);
	w->pipe = p->pipe;
	if (p->timeout_s)
		hub_timer_set(p->timer, (uint64_t)p->timeout_s * 1000);
	process_attach(p);
	process_push(p);
	hub_call_end(&w->call, 0);
}

static struct process *process_new(struct sandbox *sb, const struct process_spec *spec)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct process){ .store = sb->core->store, .hub = sb->core->hub, .timeout_s = spec->timeout_s };
	id_new("prc", p->id);
	p->channel = channel_new(CHANNEL_REFUSE, &channel_ops, p);
	p->pipe = bytepipe_new();
	p->timer = hub_timer_new(p->hub, on_timeout, p);
	p->linger = hub_timer_new(p->hub, on_linger, p);
	if (spec->stdin_text) {
		p->input = malloc(spec->stdin_len + 1);
		p->input_len = spec->stdin_len;
		if (p->input)
			memcpy(p->input, spec->stdin_text, spec->stdin_len);
	}
	p->sandbox = sb;
	p->next = sb->processes;
	sb->processes = p;
	if (p->channel && p->pipe && p->timer && p->linger && (p->input || !spec->stdin_text))
		return p;
	if (p->pipe)
		bytepipe_worker_close(p->pipe, NULL);
	process_leave(p);
	return NULL;
}

static json_t *create_body(const struct process *p, const struct process_spec *spec)
{
	json_t *body = json_pack("{s:s,s:b}", "id", p->id, "stdin", p->input != NULL);

	if (spec->argv)
		json_object_set(body, "argv", spec->argv);
	else
		json_object_set_new(body, "cmd", json_string(spec->cmd));
	if (spec->cwd)
		json_object_set_new(body, "cwd", json_string(spec->cwd));
	if (spec->env)
		json_object_set(body, "env", spec->env);
	return body;
}

static void process_audit(const struct process *p, const struct process_spec *spec)
{
	struct store_txn *t = store_txn_new(p->sandbox->core->store);
	json_t *detail = json_pack("{s:s}", "process", p->id);

	if (spec->argv)
		json_object_set(detail, "argv", spec->argv);
	else
		json_object_set_new(detail, "cmd", json_string(spec->cmd));
	store_txn_process(t, p->sandbox->id, p->id);
	store_txn_audit(t, p->sandbox->owner, p->sandbox->id, "process", detail);
	store_txn_submit(t, NULL, NULL);
	json_decref(detail);
}

void process_run(struct process_waiter *w)
{
	struct sandbox *sb = sandbox_usable(w->core, w->owner, w->sandbox_id, &w->call.fault);
	struct process *p = sb ? process_new(sb, w->spec) : NULL;
	json_t *body;
	int err;

	if (!p) {
		err = sb ? fault_set(&w->call.fault, ENOMEM, 503, "capacity", "Out of memory on the host.")
			 : -ENOENT;
		if (sb)
			w->call.fault.retry_after_s = 1;
		hub_call_end(&w->call, err);
		return;
	}
	p->waiter = w;
	body = create_body(p, w->spec);
	err = guest_call(sb->guest, "POST", "/processes", body, GUEST_CALL_MS, on_created, p);
	json_decref(body);
	if (err < 0) {
		guest_fault(&w->call.fault, -ECONNRESET, 0, NULL);
		p->exited = true;
		process_refused(p, err);
		return;
	}
	p->asked = true;
	process_audit(p, w->spec);
}

int process_restore(struct sandbox *sb, const char *id)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct process){ .sandbox = sb,
			       .store = sb->core->store,
			       .hub = sb->core->hub,
			       .abandoned = true,
			       .ended = true,
			       .next = sb->processes };
	snprintf(p->id, sizeof(p->id), "%s", id);
	sb->processes = p;
	return 0;
}

void processes_link_up(struct sandbox *sb)
{
	struct process *p;

	for (p = sb->processes; p; p = p->next) {
		if (p->abandoned)
			process_abandon(p);
		else if (p->exists && (!p->ended || p->pipe))
			process_attach(p);
	}
}

void processes_sandbox_ended(struct sandbox *sb)
{
	struct process *p, *next;

	for (p = sb->processes; p; p = next) {
		next = p->next;
		if (p->asked)
			continue; /* its answer is an error when the link goes */
		/* It lives on without its sandbox until its reader has the rest. */
		process_end(p, NULL, sb->reason);
		channel_free(p->channel);
		p->channel = NULL;
		process_unlist(p);
		if (p->pipe)
			process_push(p);
		else
			process_leave(p);
	}
}

void processes_hold(struct sandbox *sb)
{
	struct process *p;

	for (p = sb->processes; p; p = p->next) {
		if (p->timer)
			hub_timer_stop(p->timer);
	}
}

void processes_go_on(struct sandbox *sb, int64_t stood_ms)
{
	struct process *p;

	for (p = sb->processes; p; p = p->next) {
		int64_t left;

		if (!p->exists || p->ended || p->abandoned)
			continue;
		p->began_ms += stood_ms;
		left = (int64_t)p->timeout_s * 1000 - (mono_ms() - p->began_ms);
		/* A kill that was on its way is sent again. */
		p->killing = false;
		if (p->timeout_s)
			hub_timer_set(p->timer, left > 0 ? (uint64_t)left : 1);
	}
}

json_t *processes_ids(const struct sandbox *sb)
{
	json_t *ids = json_array();
	const struct process *p;

	for (p = sb->processes; p; p = p->next) {
		if (!p->exited)
			json_array_append_new(ids, json_string(p->id));
	}
	return ids;
}
