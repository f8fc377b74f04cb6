#include "bash/token.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

/* What a word is in. Each level keeps what it goes back to. */
struct level {
	char close;      /* ) of $( or (, ` , } of ${, " or 0 at the outside */
	bool command;    /* the word here is a command's first */
	bool in_word;    /* around an expansion: the word went on */
	bool redirect;   /* the word here is a file, and the next as it was */
	bool assignment; /* the word here began with NAME= before an expansion */
	size_t start;
};

struct scan {
	const char *code;
	size_t at, end;
	struct level stack[TOKEN_DEPTH_MAX];
	size_t depth;
	bool too_deep;
	bool comment;
	char quote;     /* ' or $ for $'…'; double quotes are a level */
	bool expansion; /* the word holds what is only known by running it */
	bool tilde;
	size_t variable; /* offset of a $ whose name goes up to here, or SIZE_MAX */
	bool braced;
	struct buf word;
};

static struct level *top(struct scan *s)
{
	return &s->stack[s->depth];
}

static bool in_double(struct scan *s)
{
	return top(s)->close == '"';
}

static void begin_word(struct scan *s)
{
	if (top(s)->in_word)
		return;
	top(s)->in_word = true;
	top(s)->start = s->at;
	top(s)->assignment = false;
	s->word.len = 0;
	s->expansion = s->tilde = false;
}

static void put(struct scan *s, char c)
{
	begin_word(s);
	buf_put(&s->word, &c, 1);
}

/* ---- ends of words ---- */

/* After these a command may follow. */
static bool is_keyword(const struct buf *w)
{
	static const char *const words[] = { "if", "then", "else", "elif", "while", "until",
					     "do", "time", "!",    "{",    "coproc" };
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (w->len == strlen(words[i]) && !memcmp(w->data, words[i], w->len))
			return true;
	}
	return false;
}

static bool is_assignment(const struct buf *w)
{
	size_t i = 0;

	while (i < w->len && (isalnum((unsigned char)w->data[i]) || w->data[i] == '_'))
		i++;
	return i > 0 && i < w->len && w->data[i] == '=' && !isdigit((unsigned char)w->data[0]);
}

static void end_word(struct scan *s)
{
	struct level *l = top(s);

	if (!l->in_word)
		return;
	if (l->redirect)
		l->redirect = false;
	else if (l->command)
		l->command =
			l->assignment || (!s->expansion && (is_keyword(&s->word) || is_assignment(&s->word)));
	l->in_word = false;
	s->variable = SIZE_MAX;
}

static void end_command(struct scan *s)
{
	end_word(s);
	top(s)->command = true;
	top(s)->redirect = false;
}

/* ---- levels ---- */

static void push(struct scan *s, char close)
{
	if (s->depth + 1 == TOKEN_DEPTH_MAX) {
		s->too_deep = true;
		s->at = s->end;
		return;
	}
	if (top(s)->in_word && !s->expansion && is_assignment(&s->word))
		top(s)->assignment = true;
	s->stack[++s->depth] = (struct level){ .close = close, .command = close != '"' && close != '}' };
}

static void pop(struct scan *s)
{
	s->depth--;
	s->variable = SIZE_MAX;
}

/* A word around an expansion that has ended: its text is not known. */
static void pop_expansion(struct scan *s)
{
	pop(s);
	s->expansion = true;
}

/* ---- one character at a time ---- */

static void in_single(struct scan *s, char c)
{
	if (c == '\'')
		s->quote = 0;
	else if (c == '\\' && s->quote == '$' && s->at + 1 < s->end)
		s->at++;
	else
		buf_put(&s->word, &c, 1);
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* A $: what kind of expansion, or none. */
static void dollar(struct scan *s)
{
	char next = s->at + 1 < s->end ? s->code[s->at + 1] : '\0';

	if (!in_double(s))
		begin_word(s);
	if (next == '(' || next == '{') {
		if (next == '(') {
			s->at++;
			push(s, ')');
			return;
		}
		s->variable = s->at++;
		s->braced = true;
		push(s, '}');
		return;
	}
	if (next == '\'' && !in_double(s)) {
		s->at++;
		s->quote = '$';
		s->expansion = true;
		return;
	}
	if (next == '"' && !in_double(s))
		return;
	s->variable = s->at;
	s->braced = false;
	s->expansion = true;
	while (s->at + 1 < s->end && is_name(s->code[s->at + 1]))
		s->at++;
	/* More follows: it is no name any more that is typed. */
	if (s->at + 1 < s->end)
		s->variable = SIZE_MAX;
}

/* Inside ${: a name at its beginning, then anything up to its }. */
static void in_braces(struct scan *s, char c)
{
	if (!is_name(c) && !(s->at == s->variable + 2 && (c == '!' || c == '#')))
		s->variable = SIZE_MAX;
	if (c == '}')
		pop_expansion(s);
	else if (c == '\\')
		s->at++;
	else if (c == '\'' && !(s->depth > 0 && s->stack[s->depth - 1].close == '"'))
		s->quote = '\'';
	else if (c == '"')
		push(s, '"');
	else if (c == '$')
		dollar(s);
	else if (c == '`')
		push(s, '`');
}

static void double_quoted(struct scan *s, char c)
{
	if (c == '"') {
		pop(s);
	} else if (c == '\\' && s->at + 1 < s->end && strchr("\"\\$`\n", s->code[s->at + 1])) {
		s->at++;
		if (s->code[s->at] != '\n')
			buf_put(&s->word, &s->code[s->at], 1);
	} else if (c == '$') {
		dollar(s);
	} else if (c == '`') {
		push(s, '`');
	} else {
		buf_put(&s->word, &c, 1);
	}
}

static void operator_char(struct scan *s, char c)
{
	if (c == '<' || c == '>') {
		end_word(s);
		top(s)->redirect = true;
		return;
	}
	/* >&2, &>file: still the redirection. */
	if (c == '&' && (top(s)->redirect || (s->at + 1 < s->end && s->code[s->at + 1] == '>')))
		return;
	if (c == ')' && top(s)->close == ')') {
		pop_expansion(s);
		return;
	}
	end_command(s);
	if (c == '(') {
		push(s, ')');
		s->stack[s->depth - 1].in_word = false;
	}
}

static void bare(struct scan *s, char c)
{
	if (c == '\\') {
		if (s->at + 1 < s->end && s->code[++s->at] != '\n')
			put(s, s->code[s->at]);
	} else if (c == '\'') {
		begin_word(s);
		s->quote = '\'';
	} else if (c == '"') {
		begin_word(s);
		push(s, '"');
	} else if (c == '$') {
		dollar(s);
	} else if (c == '`' && top(s)->close == '`') {
		pop_expansion(s);
	} else if (c == '`') {
		begin_word(s);
		push(s, '`');
	} else if (c == '\n') {
		end_command(s);
	} else if (c == ' ' || c == '\t') {
		end_word(s);
	} else if (strchr(";|&()<>", c)) {
		operator_char(s, c);
	} else if (c == '#' && !top(s)->in_word) {
		s->comment = true;
	} else {
		bool first = !top(s)->in_word;

		put(s, c);
		s->tilde = first ? c == '~' : s->tilde;
	}
}

static void step(struct scan *s)
{
	char c = s->code[s->at];

	if (s->comment)
		s->comment = c != '\n';
	if (s->comment)
		return;
	if (s->quote)
		in_single(s, c);
	else if (top(s)->close == '}')
		in_braces(s, c);
	else if (in_double(s))
		double_quoted(s, c);
	else
		bare(s, c);
}

/* ---- the answer ---- */

static int take_variable(struct scan *s, struct token *ret)
{
	size_t from = s->variable + (s->braced ? 2 : 1);

	ret->kind = s->braced ? TOKEN_BRACED : TOKEN_VARIABLE;
	ret->start = s->variable;
	buf_put(&ret->word, s->code + from, s->end - from);
	buf_put(&ret->word, "", 1);
	ret->word.len--;
	return ret->word.failed ? -ENOMEM : 0;
}

static void take_word(struct scan *s, struct token *ret)
{
	struct level *l = top(s);

	if (in_double(s)) {
		ret->quote = '"';
		l = &s->stack[s->depth - 1];
	} else {
		ret->quote = s->quote;
	}
	/* Not in a word: it would begin here. */
	if (!l->in_word) {
		l->start = s->end;
		s->word.len = 0;
		s->expansion = s->tilde = false;
	}
	if (s->expansion || s->quote == '$' || l->close == '}')
		return;
	ret->kind = l->command && !l->redirect ? TOKEN_COMMAND : TOKEN_FILE;
	ret->start = l->start;
	ret->tilde = s->tilde;
}

/* NAME=value: the value is a file. --option=value too. */
static void take_value(const char *code, size_t cursor, struct token *t)
{
	char *equal = memchr(t->word.data, '=', t->word.len);
	size_t at;

	if (!equal || t->quote)
		return;
	for (at = cursor; at > t->start && code[at - 1] != '='; at--) {
		if (strchr("\\'\"", code[at - 1]))
			return;
	}
	if (at == t->start)
		return;
	equal = memrchr(t->word.data, '=', t->word.len);
	t->start = at;
	t->kind = TOKEN_FILE;
	t->word.len = (size_t)(t->word.data + t->word.len - (equal + 1));
	memmove(t->word.data, equal + 1, t->word.len);
	t->tilde = t->word.len > 0 && t->word.data[0] == '~';
}

int token_at(const char *code, size_t cursor, struct token *ret)
{
	struct scan s = { .code = code, .end = cursor, .variable = SIZE_MAX };

	*ret = (struct token){ .kind = TOKEN_NONE, .start = cursor };
	s.stack[0].command = true;
	for (; s.at < s.end; s.at++)
		step(&s);
	if (s.variable != SIZE_MAX && !s.quote && !s.comment && !s.too_deep) {
		buf_free(&s.word);
		return take_variable(&s, ret);
	}
	if (s.too_deep || s.comment)
		s.word.len = 0;
	else
		take_word(&s, ret);
	ret->word = s.word;
	if (ret->kind != TOKEN_NONE && ret->word.data)
		take_value(code, cursor, ret);
	buf_put(&ret->word, "", 1);
	ret->word.len--;
	return ret->word.failed ? -ENOMEM : 0;
}

void token_free(struct token *t)
{
	buf_free(&t->word);
}
