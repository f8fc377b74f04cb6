#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../version.h"
#include "command.h"

int complain(int code, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("carrel: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return code;
}

int misused(const struct command *c, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "carrel %s: ", c->verb);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (see carrel %s --help)\n", c->verb);
	return EXIT_USAGE;
}

int wrong_option(const struct command *c, char **argv)
{
	const char *option = argv[optind - 1];

	/* getopt_long() tells a long option's missing value by the option's own number. */
	if (option[0] == '-' && option[1] == '-')
		return misused(c, optopt ? "%s needs a value" : "%s is no option here", option);
	return misused(c, "%s is no option here, or lacks its value", option);
}

int complain_reply(const struct command *c, int code, const struct reply *reply)
{
	json_t *error;
	char *text;

	if (reply->unreachable)
		code = EXIT_UNREACHABLE;
	if (!c->json)
		return complain(code, "%s", reply->message);
	error = json_pack("{s:s, s:s}", "code", reply->code[0] ? reply->code : "no_answer", "message",
			  reply->message);
	text = json_dumps(error, JSON_COMPACT | JSON_ENSURE_ASCII);
	fflush(stdout);
	fprintf(stderr, "%s\n", text ? text : "{}");
	free(text);
	json_decref(error);
	return code;
}

int number_option(const struct command *c, const char *name, const char *text, long low, long high, long *ret)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (errno || end == text || *end || number < low || number > high)
		return misused(c, "%s takes a whole number from %ld to %ld, not \"%s\"", name, low, high,
			       text);
	*ret = number;
	return EXIT_OK;
}

int env_option(const struct command *c, const char *text, json_t *env)
{
	const char *equals = strchr(text, '=');
	char *name;
	int err;

	if (!equals || equals == text)
		return misused(c, "--env takes NAME=VALUE, not \"%s\"", text);
	name = strndup(text, equals - text);
	err = name ? json_object_set_new(env, name, json_string(equals + 1)) : -1;
	free(name);
	return err ? misused(c, "\"%s\" is not UTF-8", text) : EXIT_OK;
}

void print_json(json_t *json)
{
	json_dumpf(json, stdout, JSON_COMPACT);
	putchar('\n');
}

int signal_number(const char *name)
{
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *known = sigabbrev_np(i);

		if (known && strcmp(known, name) == 0)
			return i;
	}
	return 0;
}

char **words_only(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	int opt;

	while ((opt = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (opt != 'j') {
			wrong_option(c, argv);
			return NULL;
		}
		c->json = true;
	}
	return argv + optind;
}

static bool asks_help(int argc, char **argv)
{
	/* What stands behind -- belongs to another program. */
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	return false;
}

int need_appliance(struct command *c)
{
	char why[1024];
	int code = where_find(&c->http.where, why, sizeof(why));

	if (code)
		return complain(code, "%s", why);
	return http_init(&c->http) < 0 ? complain(EXIT_FAILED, "Out of memory.") : EXIT_OK;
}

static int verb_start(struct command *c, const struct verb *verb, int argc, char **argv)
{
	int code;

	c->verb = verb->name;
	opterr = 0; /* wrong_option() says it */
	if (asks_help(argc, argv)) {
		print_verb_help(verb);
		return EXIT_OK;
	}
	code = verb->local ? EXIT_OK : need_appliance(c);
	if (code != EXIT_OK)
		return code;
	code = verb->run(c, argc, argv);
	if (c->http.multi)
		http_free(&c->http);
	if (fflush(stdout) != 0 && code == EXIT_OK && errno != EPIPE)
		return complain(EXIT_FAILED, "Writing the output failed: %s.", strerror(errno));
	return code;
}

int main(int argc, char **argv)
{
	struct command c = { .json = false };
	const struct verb *verb;
	int at = 1;

	for (; at < argc && argv[at][0] == '-'; at++) {
		if (strcmp(argv[at], "--json") == 0) {
			c.json = true;
			continue;
		}
		if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
			print_help(stdout);
			return EXIT_OK;
		}
		if (strcmp(argv[at], "--version") == 0) {
			puts("carrel " CARREL_VERSION);
			return EXIT_OK;
		}
		fprintf(stderr, "carrel: unknown option %s (see carrel --help)\n", argv[at]);
		return EXIT_USAGE;
	}
	if (at == argc) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	verb = verb_find(argv[at]);
	if (!verb) {
		fprintf(stderr, "carrel: there is no verb \"%s\" (see carrel --help)\n", argv[at]);
		return EXIT_USAGE;
	}
	return verb_start(&c, verb, argc - at, argv + at);
}
