#include "cell_env.h"

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

json_t *cell_env_set(json_t *env)
{
	char *text = json_dumps(env, JSON_COMPACT | JSON_ENSURE_ASCII);
	char *data = text ? base64_encode(text, strlen(text)) : NULL;
	json_t *content = data ? request(set_code, data) : NULL;

	free(text);
	free(data);
	return content;
}

json_t *cell_env_restore(void)
{
	return request(restore_code, "");
}
