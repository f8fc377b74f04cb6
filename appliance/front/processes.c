#include <errno.h>

#include "handlers.h"
#include "json_in.h"
#include "stream.h"

enum {
	ARGV_MAX = 1024,
	CMD_MAX = 128 * 1024 - 1, /* one argument of a process, MAX_ARG_STRLEN */
	CWD_MAX = 4095,
};

struct process_body {
	json_t *argv, *env;
	const char *cmd, *cwd;
	struct field_text input;
	unsigned timeout_s;
};

#define AT(member) offsetof(struct process_body, member)
static const struct field process_fields[] = {
	{ "argv", FIELD_STRINGS, AT(argv), 1, ARGV_MAX },
	{ "cmd", FIELD_STRING, AT(cmd), 1, CMD_MAX },
	{ "cwd", FIELD_STRING, AT(cwd), 1, CWD_MAX },
	{ "env", FIELD_ENV, AT(env), 0, ENV_MAX },
	{ "stdin", FIELD_TEXT, AT(input), 0, JSON_IN_MAX },
	{ "timeout_s", FIELD_WHOLE, AT(timeout_s), 1, TIMEOUT_S_MAX },
	{ .type = FIELD_END },
};
#undef AT

int processes_run(struct request *r, struct fault *f)
{
	struct process_body b = { .timeout_s = 0 };
	struct process_spec spec;
	struct bytepipe *out;
	int err = request_fields(r, process_fields, &b, f);

	if (err)
		return err;
	if (!b.argv == !b.cmd)
		return fault_field(f, b.argv ? "conflicting_fields" : "missing_field", "argv",
				   "Give either argv (a list of strings) or cmd (a shell line).");
	spec = (struct process_spec){
		.argv = b.argv,
		.cmd = b.cmd,
		.cwd = b.cwd,
		.env = b.env,
		.stdin_text = b.input.text,
		.stdin_len = b.input.len,
		.timeout_s = b.timeout_s,
	};
	err = core_process_run(r->core, r->owner, r->id, &spec, &out, f);
	return err ? err : stream_lines(r, out, f);
}
