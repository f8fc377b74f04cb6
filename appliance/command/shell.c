/* carrel shell: line after line, each a bash of its own in the sandbox. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "edit.h"
#include "signals.h"
#include "stream.h"

enum { WHERE_MAX = 4096 }; /* PATH_MAX: the directory in the prompt */

/* $1: the line. $2: a directory for what lasts: variables, functions, the working
 * directory. It is read before and written after each line, whole or not at all;
 * a line that is killed changes nothing. */
static const char wrapper[] =
	"carrel_keep() {\n"
	"	local carrel_code=$?\n"
	"	mkdir -p -m 0700 \"$carrel_state\" && {\n"
	"		unset -f carrel_keep\n"
	"		printf 'cd -- %q\\n' \"$PWD\"\n"
	"		declare -p | sed '/^declare -[a-zA-Z]*r/d; /^declare [^ ]* carrel_/d'\n"
	"		declare -f\n"
	"		alias -p\n"
	"		printf 'carrel_last=%d\\n' $carrel_code\n"
	"	} >\"$carrel_state/new\" && mv \"$carrel_state/new\" \"$carrel_state/kept\"\n"
	"	pwd >\"$carrel_state/pwd\"\n"
	"	exit $carrel_code\n"
	"} 2>/dev/null\n"
	"carrel_state=$2\n"
	"carrel_line=$1\n"
	"set --\n"
	"shopt -s expand_aliases\n"
	"[ ! -f \"$carrel_state/kept\" ] || . \"$carrel_state/kept\" 2>/dev/null\n"
	"trap carrel_keep EXIT\n"
	"(exit ${carrel_last:-0})\n"
	"eval \"$carrel_line\"\n";

struct shell {
	struct command *command;
	const char *id;
	bool person; /* somebody types */
	char state[64];
	char where[WHERE_MAX];
	int code;           /* of the last line */
	bool stopped, away; /* away: no appliance answers any more */
};

static int sandbox_check(struct shell *s)
{
	char *path = http_path("/v1/sandboxes/", s->id);
	json_t *sandbox = NULL;
	struct reply reply;
	const char *state;
	int code = EXIT_OK;

	if (!path)
		code = complain(EXIT_FAILED, "Out of memory.");
	else if (http_json(&s->command->http, "GET", path, NULL, &sandbox, &reply) < 0)
		code = complain_reply(s->command, EXIT_FAILED, &reply);
	state = text_of(sandbox, "state");
	if (code == EXIT_OK && state && strcmp(state, "running") != 0)
		code = complain(EXIT_FAILED, "%s is not running but %s.", s->id, state);
	json_decref(sandbox);
	free(path);
	return code;
}

/* Ctrl-C ends the line, another signal the shell as well. */
static int on_signal(int signal, void *arg)
{
	struct shell *s = arg;

	s->stopped = true;
	s->code = EXIT_SIGNAL + signal;
	return 1;
}

/* EXIT_OK: it ran, and code says how it ended. */
static int process(struct shell *s, json_t *argv, struct events *events)
{
	struct stream stream = { .command = s->command, .events = events, .interrupt = on_signal, .arg = s };
	json_t *body = json_pack("{s:O}", "argv", argv);
	char *sandbox = http_path("/v1/sandboxes/", s->id), *path = NULL;
	int got;

	s->stopped = false;
	events_init(events, s->command, NULL);
	if (!body || !sandbox || asprintf(&path, "%s/processes", sandbox) < 0)
		got = complain(EXIT_FAILED, "Out of memory.");
	else
		got = stream_follow(&stream, path, body);
	json_decref(body);
	free(sandbox);
	free(path);
	s->away = got == EXIT_UNREACHABLE;
	return s->stopped ? EXIT_OK : got;
}

struct taken {
	char *bytes;
	size_t len, size;
};

static int take(const char *bytes, size_t len, void *arg)
{
	struct taken *t = arg;

	if (t->len + len >= t->size)
		return -1;
	memcpy(t->bytes + t->len, bytes, len);
	t->len += len;
	t->bytes[t->len] = '\0';
	return 0;
}

/* Where the next line will begin, for the prompt; unchanged where it cannot be told. */
static void find_where(struct shell *s)
{
	char text[WHERE_MAX] = "", file[100];
	struct taken taken = { text, 0, sizeof(text) };
	struct request rq = { .method = "GET", .sink = take, .arg = &taken };
	char *sandbox = http_path("/v1/sandboxes/", s->id), *before = NULL, *path = NULL;
	struct reply reply;

	snprintf(file, sizeof(file), "%s/pwd", s->state);
	if (sandbox && asprintf(&before, "%s/files?path=", sandbox) > 0)
		path = http_path(before, file);
	rq.path = path;
	if (path && http_do(&s->command->http, &rq, &reply) == 0) {
		text[strcspn(text, "\n")] = '\0';
		snprintf(s->where, sizeof(s->where), "%s", text);
	}
	free(sandbox);
	free(before);
	free(path);
}

static int run_line(struct shell *s, const char *line)
{
	json_t *argv = json_pack("[s, s, s, s, s, s]", "/bin/bash", "-c", wrapper, "bash", line, s->state);
	struct events events;
	int got;

	if (!argv) {
		s->code = EXIT_USAGE;
		return complain(EXIT_OK, "The line is not UTF-8.");
	}
	got = process(s, argv, &events);
	json_decref(argv);
	if (got == EXIT_OK && !s->stopped)
		s->code = events.code;
	if (got == EXIT_OK && s->stopped && s->code != EXIT_SIGNAL + 2)
		return s->code;
	if (got != EXIT_OK)
		s->code = got;
	if (got == EXIT_OK && !s->stopped && events.how[0])
		complain(0, "%s", events.how);
	if (got == EXIT_OK && s->person && s->code != EXIT_OK)
		fprintf(stderr, "%s[exit %d]\n", s->stopped ? "^C" : "", s->code);
	return got;
}

/* "exit" or "exit N" is ours: in the sandbox it would only end its own line. */
static bool is_exit(const struct shell *s, const char *line, int *ret_code)
{
	const char *rest;
	char *end;
	long number;

	line += strspn(line, " \t");
	if (strncmp(line, "exit", 4) != 0)
		return false;
	rest = line + 4 + strspn(line + 4, " \t");
	if (*rest == '\0') {
		*ret_code = s->code;
		return true;
	}
	number = strtol(rest, &end, 10);
	if (rest == line + 4 || end == rest || end[strspn(end, " \t")])
		return false;
	*ret_code = (int)(number & 0xff);
	return true;
}

/* "id:~/x$ " */
static void prompt(const struct shell *s, char *ret, size_t size)
{
	static const char home[] = "/home/user";
	size_t len = strlen(home);
	bool below = strncmp(s->where, home, len) == 0 && (s->where[len] == '/' || !s->where[len]);

	snprintf(ret, size, "%.12s:%s%s$ ", s->id, below ? "~" : "", below ? s->where + len : s->where);
}

/* The next line, allocated; NULL at the end. */
static char *next_line(struct shell *s, struct edit *e)
{
	char text[WHERE_MAX + 64];

	if (!s->person)
		return edit_read(e);
	prompt(s, text, sizeof(text));
	return edit_line(e, text);
}

static int loop(struct shell *s, struct edit *e)
{
	char *line;

	while ((line = next_line(s, e)) != NULL) {
		bool leave = is_exit(s, line, &s->code);
		int got = leave || !line[strspn(line, " \t")] ? EXIT_OK : run_line(s, line);

		free(line);
		/* A person may try again while there is something to try it in. */
		if (got != EXIT_OK && (!s->person || s->stopped || sandbox_check(s) != EXIT_OK))
			return got;
		if (leave)
			break;
		if (s->person)
			find_where(s);
	}
	return e->signal ? EXIT_SIGNAL + e->signal : s->code;
}

static void forget(struct shell *s)
{
	json_t *argv = json_pack("[s, s, s, s]", "rm", "-rf", "--", s->state);
	struct events events;

	process(s, argv, &events);
	json_decref(argv);
}

static int run(struct command *c, int argc, char **argv)
{
	struct shell s = { .command = c, .where = "/home/user" };
	struct edit edit = { .count = 0 };
	struct timespec now;
	char **words = words_only(c, argc, argv);
	int code;

	if (!words)
		return EXIT_USAGE;
	if (!words[0] || words[1])
		return misused(c, "in which sandbox? it takes one ID");
	if (c->json)
		return misused(c, "what programs print is not JSON: use exec --json");
	s.id = words[0];
	s.person = isatty(STDIN_FILENO);
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(s.state, sizeof(s.state), "/tmp/.carrel-shell-%d-%lx%lx", getpid(),
		 (unsigned long)now.tv_sec, (unsigned long)now.tv_nsec);
	if (signals_init() < 0)
		return complain(EXIT_FAILED, "Signals cannot be caught.");
	code = sandbox_check(&s);
	if (code != EXIT_OK)
		return code;
	if (s.person)
		fprintf(stderr, "[no terminal: full-screen programs do not work, and programs get no input; "
				"exit or Ctrl-D leaves]\n");
	code = loop(&s, &edit);
	edit_free(&edit);
	if (!s.away)
		forget(&s);
	return code;
}

const struct verb verb_shell = {
	.name = "shell",
	.usage = "ID",
	.help = "type commands that run in a sandbox\n\n"
		"Each line runs as a bash of its own; variables, functions and the working directory last\n"
		"from line to line, options and background programs do not. It gives no terminal:\n"
		"full-screen programs do not work, and programs get no input. What belongs together goes on\n"
		"one line. A failure's exit code is shown; Ctrl-C ends the program that runs, exit or "
		"Ctrl-D\n"
		"the shell. Arrows edit the line and bring back earlier ones. Lines may come from a pipe\n"
		"as well. The exit code is that of the last line.",
	.run = run,
};
