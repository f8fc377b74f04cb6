#include "bash/lang.h"
#include "bash/quote.h"
#include "bash/talk.h"
#include "core/core.h"
#include "core/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

json_t *bash_error(const char *ename, const char *evalue)
{
	return json_pack("{s:s, s:s, s:s, s:[]}", "status", "error", "ename", ename, "evalue", evalue,
			 "traceback");
}

static void tell_loss(struct bash *b, const struct bash_shell_end *end, bool heir)
{
	char how[100];

	if (end->signal)
		snprintf(how, sizeof(how), "was ended by SIG%s", sigabbrev_np(end->signal) ?: "?");
	else
		snprintf(how, sizeof(how), "ended with exit code %d", end->code);
	snprintf(b->lost, sizeof(b->lost), "The shell %s. A new one was started: %s.\n", how,
		 heir ? "it has the same variables, functions, options and directory, but no jobs"
		      : "variables, functions, options and directory are as at the beginning");
}

int bash_new_shell(struct bash *b, const struct bash_shell_end *end, char *why, size_t why_size)
{
	bool heir = false;
	int err = talk_start(&b->shell, &heir, why, why_size);

	if (!err && end)
		tell_loss(b, end, heir);
	return err;
}

int bash_need_shell(struct bash *b, char *why, size_t why_size)
{
	struct bash_shell_end end;

	if (bash_shell_ended(&b->shell, &end))
		return bash_new_shell(b, &end, why, why_size);
	return b->shell.pid ? 0 : bash_new_shell(b, NULL, why, why_size);
}

/* ---- questions to the shell ---- */

struct heard {
	char *text;
	size_t len;
};

static void hear(void *arg, char *text, size_t len)
{
	struct heard *h = arg;

	if (h->text || len == 0 || text[0] != 'X')
		return;
	h->text = strdup(text + 1);
}

char *bash_ask_shell(struct bash *b, const char *text)
{
	struct heard heard = { NULL, 0 };
	struct talk t = { .sh = &b->shell, .limit_ms = TALK_OWN_MS, .record = hear, .arg = &heard };
	char why[300];

	if (bash_need_shell(b, why, sizeof(why))) {
		log_line("%s", why);
		return NULL;
	}
	if (bash_shell_set_code(&b->shell, text, strlen(text)) == 0)
		talk_run(&t, false);
	return heard.text;
}

/* ---- requests ---- */

json_int_t bash_characters(const char *text, size_t n)
{
	json_int_t count = 0;
	size_t i;

	for (i = 0; i < n; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

const char *bash_request_code(const struct request *r, size_t *ret_cursor)
{
	const json_t *code = json_object_get(r->content, "code"),
		     *pos = json_object_get(r->content, "cursor_pos");
	const char *text = json_string_value(code);
	size_t len, at = 0;
	json_int_t left;

	if (!text)
		return NULL;
	len = strlen(text);
	left = json_is_integer(pos) ? json_integer_value(pos) : (json_int_t)len;
	while (at < len && left-- > 0) {
		at++;
		while (((unsigned char)text[at] & 0xc0) == 0x80)
			at++;
	}
	*ret_cursor = at;
	return text;
}

static json_t *bash_history(void *lang, struct core *c, const struct request *r)
{
	struct bash *b = lang;

	(void)c;
	return history_reply(&b->history, r->content);
}

/* Asked once, at the start: so the shell is there when the first cell comes. */
static void read_version(struct bash *b)
{
	char *heard =
		bash_ask_shell(b, "\\builtin printf '\\0X%s\\0' \"${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}."
				  "${BASH_VERSINFO[2]}\" >|\"$__carrel_up\"\n");

	snprintf(b->version, sizeof(b->version), "%s", heard ? heard : "unknown");
	free(heard);
}

static json_t *bash_kernel_info(void *lang)
{
	struct bash *b = lang;
	json_t *language;
	char banner[80];

	read_version(b);
	language = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "name", "bash", "version", b->version,
			     "mimetype", "text/x-sh", "file_extension", ".sh", "codemirror_mode", "shell",
			     "pygments_lexer", "bash");
	snprintf(banner, sizeof(banner), "Bash %s (Carrel)", b->version);
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:b, s:[{s:s, s:s}]}", "status", "ok",
			 "protocol_version", "5.4", "implementation", "carrel-bash", "implementation_version",
			 "1", "language_info", language, "banner", banner, "debugger", 0, "help_links",
			 "text", "Bash Reference Manual", "url",
			 "https://www.gnu.org/software/bash/manual/bash.html");
}

/* ---- identity ---- */

static bool is_name(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	return !*s;
}

/* export NAME='…' unless the user has changed what the host gave last. */
static void put_variable(struct buf *text, const char *name, const char *old, const char *value)
{
	if (!is_name(name))
		return;
	if (old) {
		buf_puts(text, "[[ ${");
		buf_puts(text, name);
		buf_puts(text, "-} != ");
		quote_put(text, old, strlen(old));
		buf_puts(text, " ]] || ");
	}
	buf_puts(text, value ? "\\builtin export " : "\\builtin unset -v ");
	buf_puts(text, name);
	if (value) {
		buf_puts(text, "=");
		quote_put(text, value, strlen(value));
	}
	buf_puts(text, "\n");
}

static void put_environment(struct bash *b, struct buf *text, json_t *env)
{
	const char *name, *old, *value;
	json_t *j;

	json_object_foreach(b->given, name, j)
	{
		if (!json_object_get(env, name))
			put_variable(text, name, json_string_value(j), getenv(name));
	}
	json_object_foreach(env, name, j)
	{
		value = json_string_value(j);
		old = json_string_value(json_object_get(b->given, name));
		/* What it was started with was given too. */
		if (!b->given)
			old = getenv(name);
		if (value && !(old && !strcmp(old, value)))
			put_variable(text, name, NULL, value);
	}
}

static json_t *bash_identity(void *lang, struct core *c, const struct request *r)
{
	json_t *env = json_object_get(r->content, "env");
	struct bash *b = lang;
	BUF_AUTO text = { 0 };
	unsigned seed = 0;
	char line[80];

	(void)c;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return bash_error("OSError", "the system gives no randomness");
	snprintf(line, sizeof(line), "RANDOM=%u\n", seed & 0x7fffffff);
	buf_puts(&text, line);
	if (json_is_object(env))
		put_environment(b, &text, env);
	buf_puts(&text, "\\builtin printf '\\0X\\0' >|\"$__carrel_up\"\n");
	buf_put(&text, "", 1);
	if (!text.failed) {
		char *heard = bash_ask_shell(b, text.data);

		if (!heard)
			return bash_error("ShellDied", "the shell did not take its new identity");
		free(heard);
	}
	if (json_is_object(env)) {
		json_decref(b->given);
		b->given = json_deep_copy(env);
	}
	return text.failed ? bash_error("MemoryError", "no memory was left")
			   : json_pack("{s:s}", "status", "ok");
}

const struct lang_ops bash_lang_ops = {
	.kernel_info = bash_kernel_info,
	.execute = bash_execute,
	.complete = bash_complete,
	.inspect = bash_inspect,
	.is_complete = bash_is_complete,
	.history = bash_history,
	.identity = bash_identity,
};
