#include "bash/lang.h"
#include "bash/paths.h"
#include "bash/quote.h"
#include "bash/token.h"
#include "core/request.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* What a front end can show; a system has some thousand commands. */
	MATCHES_MAX = 5000,
};

struct matches {
	char **list;
	size_t n;
	const struct token *token;
	bool plain; /* commands and variables: as they are */
};

static void matches_free(struct matches *m)
{
	while (m->n > 0)
		free(m->list[--m->n]);
	free(m->list);
}

static void add(struct matches *m, const char *text)
{
	char **list;

	if (m->n == MATCHES_MAX)
		return;
	/* Room grows with every power of two. */
	if ((m->n & (m->n - 1)) == 0) {
		list = realloc(m->list, (m->n ? 2 * m->n : 1) * sizeof(*list));
		if (!list)
			return;
		m->list = list;
	}
	m->list[m->n] = strdup(text);
	if (m->list[m->n])
		m->n++;
}

/* A file's name in the quoting that was begun; closed unless more may follow. */
static void add_path(void *arg, const char *name)
{
	struct matches *m = arg;
	size_t n = strlen(name), bare = m->token->tilde ? strcspn(name, "/") : 0;
	char quote[2] = { m->token->quote, '\0' };
	BUF_AUTO text = { 0 };

	buf_puts(&text, quote);
	buf_put(&text, name, bare);
	quote_put_in(&text, name + bare, n - bare, quote[0]);
	if (quote[0] && n > 0 && name[n - 1] != '/')
		buf_puts(&text, quote);
	buf_put(&text, "", 1);
	if (!text.failed)
		add(m, text.data);
}

static void add_lines(struct matches *m, char *text, const char *before, const char *after)
{
	char line[1024], *one, *at = text;

	while ((one = strsep(&at, "\n"))) {
		if (!one[0] || strlen(one) > 512)
			continue;
		snprintf(line, sizeof(line), "%s%s%s", before, one, after);
		add(m, line);
	}
}

/* Only such words are given to bash, and these as data: what it does with others
 * (expand, match) is not what was typed. */
static bool is_harmless(const char *word)
{
	for (; *word; word++) {
		if (!isalnum((unsigned char)*word) && !strchr("_-.+@%,:", *word) && !(*word & 0x80))
			return false;
	}
	return true;
}

static char *ask(struct bash *b, const char *options, const char *word)
{
	BUF_AUTO text = { 0 };

	if (!is_harmless(word))
		return NULL;
	buf_puts(&text, "{ \\builtin printf '\\0X'; \\builtin compgen ");
	buf_puts(&text, options);
	buf_puts(&text, " -- ");
	quote_put(&text, word, strlen(word));
	buf_puts(&text, "; \\builtin printf '\\0'; } >|\"$__carrel_up\"\n");
	buf_put(&text, "", 1);
	return text.failed ? NULL : bash_ask_shell(b, text.data);
}

static void find_paths(struct bash *b, struct matches *m, bool executables)
{
	struct paths p = { .tilde = m->token->tilde, .executables = executables };
	char cwd[64], why[300];

	if (bash_need_shell(b, why, sizeof(why)))
		return;
	snprintf(cwd, sizeof(cwd), "/proc/%d/cwd", (int)b->shell.pid);
	p.base = cwd;
	paths_find(&p, m->token->word.data, add_path, m);
}

/* Names that start with __carrel_ are the kernel's. */
static bool is_own(const char *text)
{
	return strstr(text, "__carrel_") != NULL;
}

static void find(struct bash *b, struct matches *m)
{
	const char *word = m->token->word.data;
	bool braced = m->token->kind == TOKEN_BRACED;
	char *text = NULL;

	switch (m->token->kind) {
	case TOKEN_NONE:
		return;
	case TOKEN_VARIABLE:
	case TOKEN_BRACED:
		text = ask(b, "-v", word);
		if (text)
			add_lines(m, text, braced ? "${" : "$", braced ? "}" : "");
		break;
	case TOKEN_COMMAND:
		if (!m->token->quote && !m->token->tilde && !strchr(word, '/')) {
			text = ask(b, "-c", word);
			if (text)
				add_lines(m, text, "", "");
			break;
		}
		find_paths(b, m, true);
		break;
	case TOKEN_FILE:
		find_paths(b, m, false);
		break;
	}
	free(text);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static json_t *list_of(struct matches *m)
{
	json_t *list = json_array();
	size_t i;

	if (m->n > 0)
		qsort(m->list, m->n, sizeof(*m->list), by_text);
	for (i = 0; i < m->n; i++) {
		/* Names that are not UTF-8 cannot be typed by a client. */
		if (!is_own(m->list[i]) && (i == 0 || strcmp(m->list[i], m->list[i - 1])))
			json_array_append_new(list, json_string(m->list[i]));
	}
	return list;
}

json_t *bash_complete(void *lang, struct core *c, const struct request *r)
{
	struct matches m = { .list = NULL };
	struct token token;
	size_t cursor = 0;
	const char *code = bash_request_code(r, &cursor);
	json_t *reply;

	(void)c;
	if (!code)
		return bash_error("BadRequest", "a complete_request needs \"code\", a string");
	if (token_at(code, cursor, &token)) {
		token_free(&token);
		return bash_error("MemoryError", "no memory was left");
	}
	m.token = &token;
	find(lang, &m);
	reply = json_pack("{s:s, s:o, s:I, s:I, s:{}}", "status", "ok", "matches", list_of(&m),
			  "cursor_start", bash_characters(code, token.start), "cursor_end",
			  bash_characters(code, cursor), "metadata");
	matches_free(&m);
	token_free(&token);
	return reply;
}
