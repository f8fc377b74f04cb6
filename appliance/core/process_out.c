/* A process's events to its worker: text where it is text, base64 where it is
 * not, at the worker's pace. */
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "process_inner.h"
#include "times.h"

static void add_output(struct process *p, const char *type, const char *bytes, size_t len, bool text)
{
	char *encoded;

	if (len == 0)
		return;
	if (text) {
		events_text(&p->events, type, bytes, len);
		return;
	}
	encoded = base64_encode(bytes, len);
	if (encoded)
		events_add(&p->events, type, json_pack("{s:s}", "b64", encoded));
	else
		p->events.lines.failed = true;
	free(encoded);
}

/* Whole characters as text, an unfinished one waits, anything else as base64. */
void process_output(struct process *p, unsigned stream, const char *bytes, size_t len)
{
	struct utf8_split *u = &p->text[stream];
	const char *type = stream ? "stderr" : "stdout";
	struct buf whole = { 0 };
	size_t valid;

	buf_add(&whole, u->held, u->held_len);
	buf_add(&whole, bytes, len);
	u->held_len = 0;
	valid = utf8_valid(whole.bytes, whole.len);
	if (whole.failed) {
		p->events.lines.failed = true;
	} else if (valid == whole.len) {
		add_output(p, type, whole.bytes, whole.len, true);
	} else if (utf8_may_continue(whole.bytes + valid, whole.len - valid)) {
		add_output(p, type, whole.bytes, valid, true);
		u->held_len = whole.len - valid;
		memcpy(u->held, whole.bytes + valid, u->held_len);
	} else {
		add_output(p, type, whole.bytes, whole.len, false);
	}
	buf_free(&whole);
}

void process_end(struct process *p, json_t *exit, const char *reason)
{
	json_t *code = json_object_get(exit, "exit_code"), *fields;
	const char *sig = json_string_value(json_object_get(exit, "signal"));
	const char *why = json_string_value(json_object_get(exit, "reason"));
	unsigned i;

	if (p->ended)
		return;
	p->ended = true;
	for (i = 0; i < 2; i++)
		add_output(p, i ? "stderr" : "stdout", p->text[i].held, p->text[i].held_len, false);
	fields = json_pack("{s:I}", "duration_ms", (json_int_t)(mono_ms() - p->began_ms));
	if (json_is_integer(code))
		json_object_set_new(fields, "exit_code", json_integer(json_integer_value(code) & 0xff));
	if (sig && strlen(sig) < 32)
		json_object_set_new(fields, "signal", json_string(sig));
	if (!reason)
		reason = p->timed_out ? "timeout" : why && strlen(why) < 64 ? why : NULL;
	if (reason)
		json_object_set_new(fields, "reason", json_string(reason));
	events_add(&p->events, "end", fields);
	hub_timer_stop(p->timer);
}

static void process_pause(struct process *p, bool paused)
{
	if (p->paused == paused || !p->channel)
		return;
	p->paused = paused;
	channel_pause(p->channel, paused);
}

void process_push(struct process *p)
{
	struct buf *lines = &p->events.lines;

	if (!p->pipe || p->leaving)
		return;
	if (bytepipe_worker_gone(p->pipe)) {
		if (p->ended)
			process_leave(p);
		else
			process_abandon(p);
		return;
	}
	p->lines_at += bytepipe_hub_write(p->pipe, lines->bytes + p->lines_at, lines->len - p->lines_at);
	if (p->lines_at == lines->len) {
		events_taken(&p->events);
		p->lines_at = 0;
		process_pause(p, false);
	} else {
		process_pause(p, true);
	}
	if (p->ended && p->lines_at == 0 && lines->len == 0) {
		bytepipe_hub_close(p->pipe, NULL);
		p->pipe = NULL;
		hub_timer_set(p->linger, PROCESS_LINGER_MS);
	}
}

static void process_pushed(void *arg)
{
	process_push(arg);
}

/* On the worker's thread. */
void process_pipe_changed(void *arg)
{
	struct process *p = arg;

	hub_post(p->hub, &p->item, process_pushed, p);
}
