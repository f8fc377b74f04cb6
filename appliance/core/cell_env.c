#include "cell_env.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "buf.h"
#include "jupyter.h"

/* What was there before goes onto a stack in sys, for the request after the cell. */
static const char set_code[] = "import base64, json, os, sys\n"
			       "new = json.loads(base64.b64decode(data))\n"
			       "stack = sys.__dict__.setdefault('_carrel_cell_env', [])\n"
			       "stack.append({name: os.environ.get(name) for name in new})\n"
			       "os.environ.update(new)\n";

/* In a kernel that was started anew in between the stack is empty. */
static const char restore_code[] = "import os, sys\n"
				   "stack = sys.__dict__.get('_carrel_cell_env')\n"
				   "for name, value in (stack.pop() if stack else {}).items():\n"
				   "    os.environ.pop(name, None)\n"
				   "    if value is not None:\n"
				   "        os.environ[name] = value\n";

static json_t *request(const char *code, const char *data)
{
	struct buf b = { 0 };
	char *code64 = base64_encode(code, strlen(code));
	json_t *content = NULL;

	if (code64) {
		buf_printf(&b, "exec(__import__('base64').b64decode('%s').decode(), {'data': '%s'})", code64,
			   data);
		if (!b.failed)
			content = jupyter_execute_content(b.bytes, true);
	}
	free(code64);
	buf_free(&b);
	return content;
}

static bool is_bash(const char *language)
{
	return strcmp(language, "bash") == 0;
}

static bool is_bash_name(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	return !*s;
}

static void put_bash_quoted(struct buf *b, const char *text)
{
	size_t n;

	buf_printf(b, "'");
	for (; *text; text += n) {
		n = strcspn(text, "'");
		buf_printf(b, "%.*s", (int)n, text);
		if (text[n])
			buf_printf(b, "'\\''"), n++;
	}
	buf_printf(b, "'");
}

/* How each variable was is kept as commands that make it so again. */
static json_t *bash_set(json_t *env)
{
	struct buf b = { 0 };
	json_t *content = NULL, *value;
	const char *name;

	buf_printf(&b, "__carrel_env=$(\nfor n in");
	json_object_foreach(env, name, value) if (is_bash_name(name)) buf_printf(&b, " %s", name);
	buf_printf(&b,
		   "; do builtin echo \"unset -v $n\"; builtin declare -p \"$n\" 2>/dev/null; done\n:)\n");
	json_object_foreach(env, name, value)
	{
		if (!is_bash_name(name))
			continue;
		buf_printf(&b, "export %s=", name);
		put_bash_quoted(&b, json_string_value(value));
		buf_printf(&b, "\n");
	}
	if (!b.failed)
		content = jupyter_execute_content(b.bytes, true);
	buf_free(&b);
	return content;
}

json_t *cell_env_set(json_t *env, const char *language)
{
	char *text, *data;
	json_t *content;

	if (is_bash(language))
		return bash_set(env);
	text = json_dumps(env, JSON_COMPACT | JSON_ENSURE_ASCII);
	data = text ? base64_encode(text, strlen(text)) : NULL;
	content = data ? request(set_code, data) : NULL;
	free(text);
	free(data);
	return content;
}

json_t *cell_env_restore(const char *language)
{
	if (is_bash(language))
		return jupyter_execute_content("eval \"${__carrel_env-}\"\nunset -v __carrel_env\n", true);
	return request(restore_code, "");
}
