#include "bash/lang.h"
#include "bash/talk.h"
#include "core/core.h"
#include "core/log.h"

#include <errno.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A cell while it runs. */
struct cell {
	struct bash *b;
	struct core *c;
	const struct request *r;
	struct talk talk;
};

/* What ends a cell: its reply is made of this. */
struct outcome {
	const char *ename; /* NULL: ok */
	char evalue[300];
	char line[320]; /* the traceback */
};

/* A shell was replaced since the last cell began: the client is told once. */
static void say_loss(struct cell *x)
{
	const char *text = x->b->lost;

	if (!text[0] || request_bool(x->r, "silent", false))
		return;
	core_flush(x->c);
	iopub_put_text(&x->c->iopub, 1, x->r->parent, text, strlen(text));
	x->b->lost[0] = '\0';
}

static void answer(int fd, const char *byte)
{
	if (write(fd, byte, 1) < 0)
		log_line("the shell cannot be answered: %s", strerror(errno));
}

/* ---- what the shell asks for ---- */

/* True when the client gave a line, which is now in the cell's input. */
static bool ask_client(struct cell *x, const char *prompt, bool secret)
{
	struct utf8_stream u = { .n = 0 };
	BUF_AUTO clean = { 0 };
	json_t *value = NULL;
	int err;

	utf8_feed(&u, prompt, strlen(prompt), &clean);
	utf8_end(&u, &clean);
	if (clean.failed || core_input_ask(x->c, clean.data ? clean.data : "", clean.len, secret))
		return false;
	do {
		err = core_input_wait(x->c, &value);
		if (err == -EINTR && talk_interrupted()) {
			talk_interrupt(&x->talk);
			return false;
		}
		/* Its end is seen next. */
	} while (err == -EINTR && bash_shell_is_alive(&x->b->shell));
	if (err)
		return false;
	clean.len = 0;
	buf_put(&clean, json_string_value(value), json_string_length(value));
	json_decref(value);
	if (clean.len > 0 && clean.data[0] == '\x04')
		return false;
	buf_put(&clean, "\n", 1);
	return !clean.failed && bash_shell_add_input(&x->b->shell, clean.data, clean.len) == 0;
}

static void serve_record(void *arg, char *text, size_t len)
{
	struct cell *x = arg;
	char *field[RECORD_FIELDS_MAX] = { 0 };
	size_t n;
	bool ok;

	if (text[0] == 'C' && len == 1) {
		core_publish(x->c, "clear_output", json_pack("{s:b}", "wait", 0), NULL, NULL, 0);
		answer(x->b->shell.acks[1], "1");
		return;
	}
	n = record_split(text, field, text[0] == 'R' ? 3 : RECORD_FIELDS_MAX);
	if (text[0] == 'R' && n == 3) {
		ok = request_bool(x->r, "allow_stdin", false) && ask_client(x, field[2], field[1][0] == '1');
		answer(x->b->shell.answers[1], ok ? "1" : "0");
	} else if (text[0] == 'D' && n == 5) {
		ok = display_file(&x->b->display, x->c, x->r, field[1], field[3], field[4]);
		if (field[2][0] == '1')
			unlink(field[4]);
		answer(x->b->shell.acks[1], ok ? "1" : "0");
	}
}

/* ---- the text ---- */

/* Whether set -u is, or may come to be, in force: then a command that fails for it
 * would, in an interactive shell, only end itself. As a group the cell ends with it.
 * A group is read before it runs, so not where aliases or extglob change how. */
static bool is_group(const struct bash *b, const char *code)
{
	if (strstr(code, "alias") || strstr(code, "shopt"))
		return false;
	if (strchr(b->shell.flags, 'u') || strstr(code, "nounset"))
		return true;
	for (code = strstr(code, "set -"); code; code = strstr(code + 1, "set -")) {
		if (code[5 + strcspn(code + 5, "u \t\n;&|")] == 'u')
			return true;
	}
	return false;
}

static int hand_over(struct bash *b, const char *code, size_t len)
{
	BUF_AUTO text = { 0 };

	if (!is_group(b, code))
		return bash_shell_set_code(&b->shell, code, len);
	buf_puts(&text, "{ :\n");
	text.len -= 1;
	buf_puts(&text, "; ");
	buf_put(&text, code, len);
	buf_puts(&text, "\n}\n");
	return text.failed ? -ENOMEM : bash_shell_set_code(&b->shell, text.data, text.len);
}

/* ---- how it ended ---- */

static void __attribute__((format(printf, 3, 4)))
set_error(struct outcome *o, const char *ename, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(o->evalue, sizeof(o->evalue), fmt, ap);
	va_end(ap);
	o->ename = ename;
	if (o->evalue[0])
		snprintf(o->line, sizeof(o->line), "%s: %s", ename, o->evalue);
	else
		snprintf(o->line, sizeof(o->line), "%s", ename);
}

static void set_status(struct outcome *o, const struct talk *t)
{
	int status = t->aborted ? t->abort_status : t->status;

	if (t->interrupts && status)
		set_error(o, "KeyboardInterrupt", "%s", "");
	else if (status)
		set_error(o, "ExitStatus", "%d", status);
}

/* The shell is gone, and with it what it knew: say so, and have another. */
static void replace_shell(struct cell *x, struct outcome *o)
{
	const struct talk *t = &x->talk;
	char why[300];

	if (t->interrupts)
		set_error(o, "KeyboardInterrupt", "the shell did not heed it and was ended");
	else if (t->deaf)
		set_error(o, "ShellDied", "the shell did not take commands any more and was ended");
	else if (t->end.signal)
		set_error(o, "ShellDied", "the shell was ended by SIG%s", sigabbrev_np(t->end.signal) ?: "?");
	else if (t->end.code)
		set_error(o, "ExitStatus", "%d", t->end.code);
	if (bash_new_shell(x->b, &t->end, why, sizeof(why)))
		set_error(o, "ShellDied", "no other shell could be started: %.200s", why);
	say_loss(x);
}

static void finish(struct cell *x, enum talk_end end, struct outcome *o)
{
	if (end == TALK_DONE)
		set_status(o, &x->talk);
	else if (end == TALK_DIED)
		replace_shell(x, o);
	else
		set_error(o, "KeyboardInterrupt", "the kernel was asked to end");
}

/* A client that does not read holds a cell here rather than its text in memory. */
static void wait_for_reader(struct core *c)
{
	if (core_wait_room(c))
		return;
	talk_interrupted();
	core_interruptible(c, true);
	while (!core_wait_room(c) && !atomic_load(&c->stop) && !talk_interrupted())
		;
	core_interruptible(c, false);
}

/* ---- one execute_request ---- */

static void run(struct cell *x, const char *code, size_t len, struct outcome *o)
{
	enum talk_end end;
	char why[300];
	int err;

	if (memchr(code, '\0', len)) {
		set_error(o, "SyntaxError", "a cell of bash cannot hold a NUL byte");
		return;
	}
	if (bash_need_shell(x->b, why, sizeof(why))) {
		set_error(o, "ShellDied", "%s", why);
		return;
	}
	say_loss(x);
	err = hand_over(x->b, code, len);
	if (err) {
		set_error(o, "ShellDied", "the cell could not be handed to the shell: %s", strerror(-err));
		return;
	}
	/* One that came too late for the cell it was meant for. */
	talk_interrupted();
	core_interruptible(x->c, true);
	end = talk_run(&x->talk, true);
	core_interruptible(x->c, false);
	finish(x, end, o);
	if (!o->ename)
		wait_for_reader(x->c);
}

static void publish_input(struct core *c, const struct request *r, int count)
{
	json_t *content = json_pack("{s:O, s:i}", "code", json_object_get(r->content, "code"),
				    "execution_count", count);

	if (content)
		iopub_put_json(&c->iopub, "execute_input", r->parent, content, NULL);
}

static json_t *error_reply(struct core *c, const struct outcome *o, bool silent, int count)
{
	json_t *content =
		json_pack("{s:s, s:s, s:[s]}", "ename", o->ename, "evalue", o->evalue, "traceback", o->line);
	json_t *reply = content ? json_copy(content) : NULL;

	if (silent)
		json_decref(content);
	else
		core_publish(c, "error", content, NULL, NULL, 0);
	if (!reply)
		return NULL;
	json_object_set_new(reply, "status", json_string("error"));
	json_object_set_new(reply, "execution_count", json_integer(count));
	return reply;
}

/* A name and a question mark, as in IPython: its page, or NULL. */
static char *page_of(struct bash *b, const char *code)
{
	char name[100];
	size_t n = strcspn(code, "? \t\n");
	const char *rest = code + n + strspn(code + n, "?");
	bool whole = rest - (code + n) > 1;

	if (n == 0 || n >= sizeof(name) || rest == code + n || rest[strspn(rest, " \t\n")])
		return NULL;
	memcpy(name, code, n);
	name[n] = '\0';
	return bash_describe(b, name, whole);
}

static json_t *ok_reply(char *page, int count)
{
	json_t *payload = page ? json_pack("[{s:s, s:{s:s}, s:i}]", "source", "page", "data", "text/plain",
					   page, "start", 0)
			       : json_array();

	return json_pack("{s:s, s:i, s:o, s:{}}", "status", "ok", "execution_count", count, "payload",
			 payload, "user_expressions");
}

json_t *bash_execute(void *lang, struct core *c, const struct request *r)
{
	struct bash *b = lang;
	struct cell x = { .b = b, .c = c, .r = r };
	const json_t *code = json_object_get(r->content, "code");
	bool silent = request_bool(r, "silent", false);
	const char *text = json_string_value(code);
	struct outcome o = { .ename = NULL };
	json_t *reply;
	char *page;
	int count = b->count;

	x.talk = (struct talk){
		.sh = &b->shell, .core = c, .keep_status = !silent, .record = serve_record, .arg = &x
	};
	if (!text) {
		set_error(&o, "BadRequest", "an execute_request needs \"code\", a string");
		return error_reply(c, &o, true, count);
	}
	if (!silent && request_bool(r, "store_history", true)) {
		count = ++b->count;
		history_add(&b->history, count, text, json_string_length(code));
	} else if (!silent) {
		count = b->count + 1;
	}
	if (!silent)
		publish_input(c, r, count);
	display_reset(&b->display, count);
	page = silent ? NULL : page_of(b, text);
	if (!page)
		run(&x, text, json_string_length(code), &o);
	reply = o.ename ? error_reply(c, &o, silent, count) : ok_reply(page, count);
	free(page);
	return reply;
}
