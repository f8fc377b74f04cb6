#include "bash/lang.h"
#include "bash/quote.h"
#include "core/request.h"
#include "core/utf8.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || strchr("_-.+:[!", c);
}

/* The name around the cursor, or before it. */
static char *name_at(const char *code, size_t cursor)
{
	size_t start = cursor, end = cursor;

	while (start > 0 && code[start - 1] && is_word(code[start - 1]))
		start--;
	while (code[end] && is_word(code[end]))
		end++;
	while (start < end && strchr(".:-", code[start]))
		start++;
	while (end > start && strchr(".:", code[end - 1]))
		end--;
	return end > start && end - start < 100 ? strndup(code + start, end - start) : NULL;
}

/* Functions whole, variables with their value, the shell's own help, the manual
 * where there is one. The name is data to all of these. */
static const char describe[] =
	"{ \\builtin printf '\\0X'; {\n"
	"if [[ $__carrel_name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]]; then \\builtin declare -p \"$__carrel_name\" "
	"2>/dev/null; fi\n"
	"\\builtin type -a -- \"$__carrel_name\" 2>/dev/null && case $(\\builtin type -t -- "
	"\"$__carrel_name\") in\n"
	"builtin | keyword) \\builtin echo; \\builtin help -- \"$__carrel_name\" 2>/dev/null ;;\n"
	"file) if [[ $__carrel_whole ]] && \\builtin type -P man >/dev/null; then \\builtin echo;"
	" MANWIDTH=100 MANPAGER=cat PAGER=cat \\command timeout 4 man -- \"$__carrel_name\" 2>/dev/null; fi "
	";;\n"
	"esac\n"
	"} | \\command head -c $__carrel_most; \\builtin printf '\\0'; } >|\"$__carrel_up\"\n"
	"\\builtin unset -v __carrel_name __carrel_whole __carrel_most\n";

char *bash_describe(struct bash *b, const char *name, bool whole)
{
	BUF_AUTO text = { 0 };
	char line[100], *heard;

	buf_puts(&text, "__carrel_name=");
	quote_put(&text, name, strlen(name));
	snprintf(line, sizeof(line), " __carrel_whole=%s __carrel_most=%d\n", whole ? "1" : "", INSPECT_MAX);
	buf_puts(&text, line);
	buf_put(&text, describe, sizeof(describe));
	heard = text.failed ? NULL : bash_ask_shell(b, text.data);
	if (heard && heard[strspn(heard, " \n")])
		return heard;
	free(heard);
	return NULL;
}

json_t *bash_inspect(void *lang, struct core *c, const struct request *r)
{
	const json_t *level = json_object_get(r->content, "detail_level");
	struct utf8_stream u = { .n = 0 };
	size_t cursor = 0;
	const char *code = bash_request_code(r, &cursor);
	char *name = code ? name_at(code, cursor) : NULL;
	char *text = name ? bash_describe(lang, name, json_integer_value(level) > 0) : NULL;
	BUF_AUTO clean = { 0 };
	json_t *reply;

	(void)c;
	if (text) {
		utf8_feed(&u, text, strlen(text), &clean);
		utf8_end(&u, &clean);
		buf_put(&clean, "", 1);
	}
	if (!code)
		reply = bash_error("BadRequest", "an inspect_request needs \"code\", a string");
	else if (text && !clean.failed)
		reply = json_pack("{s:s, s:b, s:{s:s}, s:{}}", "status", "ok", "found", 1, "data",
				  "text/plain", clean.data, "metadata");
	else
		reply = json_pack("{s:s, s:b, s:{}, s:{}}", "status", "ok", "found", 0, "data", "metadata");
	free(name);
	free(text);
	return reply;
}
