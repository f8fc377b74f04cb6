/* carrel pause, resume, fork: a sandbox's life, without its end. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "table.h"

enum { FORKS_MAX = 16, LONGEST_S = 86400 }; /* reference v1 */

static int post(struct command *c, const char *id, const char *verb, json_t *body, json_t **ret)
{
	char *sandbox = http_path("/v1/sandboxes/", id), *path = NULL;
	struct reply reply;
	int code = EXIT_OK;

	if (!sandbox || asprintf(&path, "%s/%s", sandbox, verb) < 0)
		code = complain(EXIT_FAILED, "Out of memory.");
	else if (http_json(&c->http, "POST", path, body, ret, &reply) < 0)
		code = complain_reply(c, EXIT_FAILED, &reply);
	free(sandbox);
	free(path);
	return code;
}

/* The same for each word; the first failure counts. */
static int each(struct command *c, int argc, char **argv)
{
	char **words = words_only(c, argc, argv);
	json_t *body = json_object();
	int code = EXIT_OK;

	if (words && !*words)
		code = misused(c, "which sandbox?");
	for (; words && *words && code != EXIT_UNREACHABLE; words++) {
		json_t *sandbox = NULL;
		int one = post(c, *words, c->verb, body, &sandbox);

		if (one == EXIT_OK && c->json)
			print_json(sandbox);
		else if (one == EXIT_OK)
			printf("%s\n", *words);
		json_decref(sandbox);
		if (code == EXIT_OK)
			code = one;
	}
	json_decref(body);
	return words ? code : EXIT_USAGE;
}

/* One id a line; what failed is said. */
static int print_forks(struct command *c, json_t *answer)
{
	json_t *fork;
	int code = EXIT_OK;
	size_t i;

	json_array_foreach(json_object_get(answer, "sandboxes"), i, fork)
	{
		const char *id = text_of(fork, "id");
		const char *message = text_of(json_object_get(fork, "error"), "message");

		if (!id)
			code = EXIT_FAILED;
		if (id && !c->json)
			printf("%s\n", id);
		else if (!id && !c->json)
			complain(EXIT_FAILED, "%s", message ? message : "A fork failed.");
	}
	if (c->json)
		print_json(answer);
	return code;
}

static int run_fork(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { { "count", required_argument, NULL, 'n' },
						 { "timeout", required_argument, NULL, 'o' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	long count = 1, timeout_s = 0;
	json_t *body, *answer = NULL;
	int opt, code = EXIT_OK;

	while (code == EXIT_OK && (opt = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
		if (opt == 'n')
			code = number_option(c, "--count", optarg, 1, FORKS_MAX, &count);
		else if (opt == 'o')
			code = number_option(c, "--timeout", optarg, 1, LONGEST_S, &timeout_s);
		else if (opt == 'j')
			c->json = true;
		else
			code = wrong_option(c, argv);
	}
	if (code != EXIT_OK)
		return code;
	if (argc - optind != 1)
		return misused(c, "which sandbox? it takes one ID");
	body = json_pack("{s:i}", "count", (int)count);
	if (timeout_s)
		json_object_set_new(body, "timeout_s", json_integer(timeout_s));
	code = post(c, argv[optind], "fork", body, &answer);
	if (code == EXIT_OK)
		code = print_forks(c, answer);
	json_decref(body);
	json_decref(answer);
	return code;
}

const struct verb verb_pause = {
	.name = "pause",
	.usage = "[--json] ID…",
	.help = "stop sandboxes where they are, to go on later\n\n"
		"Prints the id of each. Memory, files and running programs are kept.",
	.run = each,
};

const struct verb verb_resume = {
	.name = "resume",
	.usage = "[--json] ID…",
	.help = "let paused sandboxes go on\n\n"
		"Prints the id of each.",
	.run = each,
};

const struct verb verb_fork = {
	.name = "fork",
	.usage = "[-n COUNT] [--timeout S] [--json] ID",
	.help = "make copies of a running sandbox, with its memory and files\n\n"
		"Prints their ids.\n"
		"  -n, --count N   how many, from 1 to 16\n"
		"  --timeout S     how long they live",
	.run = run_fork,
};
