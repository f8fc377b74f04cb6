/* carrel exec: one program in a sandbox, with its input, output and exit code. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signals.h"
#include "stream.h"

struct exec {
	struct command *command;
	json_t *body, *env;
	bool no_input;
	long timeout_s;
	int leave_code;
};

/* Ending the request ends the program. */
static int on_signal(int signal, void *arg)
{
	struct exec *x = arg;

	x->leave_code = EXIT_SIGNAL + signal;
	return 1;
}

/* A terminal gives no input: the program could not be given it as it is typed. */
static bool has_input(const struct exec *x)
{
	struct stat st;

	return !x->no_input && fstat(STDIN_FILENO, &st) == 0 && !S_ISCHR(st.st_mode);
}

static int add_input(struct exec *x)
{
	char *text = malloc(HTTP_BODY_MAX + 1);
	size_t len;
	int code = EXIT_OK;

	if (!text)
		return complain(EXIT_FAILED, "Out of memory.");
	len = fread(text, 1, HTTP_BODY_MAX + 1, stdin);
	if (ferror(stdin))
		code = complain(EXIT_FAILED, "Reading stdin failed: %s.", strerror(errno));
	else if (len > HTTP_BODY_MAX)
		code = complain(EXIT_FAILED,
				"stdin may be 1 MiB at most: carrel cp - ID:FILE, then read FILE there.");
	else if (json_object_set_new(x->body, "stdin", json_stringn(text, len)) < 0)
		code = complain(EXIT_FAILED,
				"stdin may only be UTF-8 text: carrel cp - ID:FILE, then read FILE there.");
	free(text);
	return code;
}

static int add_words(struct exec *x, char **words)
{
	json_t *argv = json_array();

	json_object_set_new(x->body, "argv", argv);
	for (; *words; words++)
		if (json_array_append_new(argv, json_string(*words)) < 0)
			return misused(x->command, "\"%s\" is not UTF-8", *words);
	return EXIT_OK;
}

static int take_options(struct exec *x, int argc, char **argv)
{
	static const struct option options[] = { { "cwd", required_argument, NULL, 'w' },
						 { "env", required_argument, NULL, 'v' },
						 { "timeout", required_argument, NULL, 'o' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	int opt, code = EXIT_OK;

	while (code == EXIT_OK && (opt = getopt_long(argc, argv, "+in", options, NULL)) != -1) {
		if (opt == 'w')
			code = json_object_set_new(x->body, "cwd", json_string(optarg)) < 0
				       ? misused(x->command, "\"%s\" is not UTF-8", optarg)
				       : EXIT_OK;
		else if (opt == 'v')
			code = env_option(x->command, optarg, x->env);
		else if (opt == 'o')
			code = number_option(x->command, "--timeout", optarg, 1, 86400, &x->timeout_s);
		else if (opt == 'j')
			x->command->json = true;
		else if (opt == 'n')
			x->no_input = true;
		else if (opt != 'i') /* -i: as other tools spell what is done anyway */
			code = wrong_option(x->command, argv);
	}
	return code;
}

static int follow(struct exec *x, const char *id)
{
	struct events events;
	struct stream stream = { .command = x->command, .events = &events, .interrupt = on_signal, .arg = x };
	char *sandbox = http_path("/v1/sandboxes/", id), *path = NULL;
	int code;

	events_init(&events, x->command, NULL);
	if (!sandbox || asprintf(&path, "%s/processes", sandbox) < 0)
		code = complain(EXIT_FAILED, "Out of memory.");
	else
		code = stream_follow(&stream, path, x->body);
	free(sandbox);
	free(path);
	if (x->leave_code)
		return x->leave_code;
	if (code == EXIT_OK && events.how[0] && !x->command->json)
		complain(0, "%s", events.how);
	return code == EXIT_OK ? events.code : code;
}

static int exec_all(struct exec *x, int argc, char **argv)
{
	int code = take_options(x, argc, argv);
	char **words;

	if (code != EXIT_OK)
		return code;
	if (optind == argc)
		return misused(x->command, "in which sandbox?");
	words = argv + optind + 1;
	if (*words && strcmp(*words, "--") == 0)
		words++;
	if (!*words)
		return misused(x->command, "which program?");
	code = add_words(x, words);
	if (code == EXIT_OK && has_input(x))
		code = add_input(x);
	if (code != EXIT_OK)
		return code;
	if (x->timeout_s)
		json_object_set_new(x->body, "timeout_s", json_integer(x->timeout_s));
	if (json_object_size(x->env) > 0)
		json_object_set(x->body, "env", x->env);
	if (signals_init() < 0)
		return complain(EXIT_FAILED, "Signals cannot be caught.");
	return follow(x, argv[optind]);
}

static int run(struct command *c, int argc, char **argv)
{
	struct exec x = { .command = c, .body = json_object(), .env = json_object() };
	int code = exec_all(&x, argc, argv);

	json_decref(x.body);
	json_decref(x.env);
	return code;
}

const struct verb verb_exec = {
	.name = "exec",
	.usage = "[-n] [--cwd DIR] [--env N=V]… [--timeout S] [--json] ID -- PROGRAM [ARGUMENT]…",
	.help = "run a program in a sandbox\n\n"
		"stdin is passed on when it is a file or a pipe (read to its end first; UTF-8, at most\n"
		"1 MiB); -n: not.\n"
		"The exit code is the program's; 124 after the time-out, 128 + N after a death by signal N.\n"
		"Ctrl-C ends the program.",
	.run = run,
};
