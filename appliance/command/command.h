/* carrel, the command: one verb, one file, one entry in the table of main.c.
 *
 * Functions that give an exit code have said on stderr what is wrong ("carrel: …")
 * when it is not EXIT_OK; they return it upward unchanged.
 */
#ifndef CARREL_COMMAND_H
#define CARREL_COMMAND_H

#include <jansson.h>
#include <stdbool.h>

#include "http.h"

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_UNREACHABLE = 3,
	EXIT_TIMEOUT = 124,    /* as timeout(1) */
	EXIT_SIGNAL = 128,     /* plus its number, as a shell */
};

struct command {
	struct http http;
	bool json;        /* --json: for programs */
	const char *verb; /* its name, for messages */
};

struct verb {
	const char *name;
	const char *usage; /* behind "carrel NAME" */
	const char *help;  /* first line: the summary; then the options */
	/* argv[0] is the verb. An exit code. */
	int (*run)(struct command *c, int argc, char **argv);
};

extern const struct verb verb_run, verb_ls, verb_exec, verb_cp, verb_kill;

/* "carrel: …" on stderr; code comes back. */
int complain(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "carrel VERB: …" and where to find help; EXIT_USAGE. */
int misused(const struct command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What getopt_long() gave '?' for; EXIT_USAGE. */
int wrong_option(const struct command *c, char **argv);
/* What the appliance answered or why it did not. */
int complain_reply(const struct command *c, int code, const struct reply *reply);
/* A whole number from low to high, or EXIT_USAGE. */
int number_option(const struct command *c, const char *name, const char *text, long low, long high, long *ret);
/* Prints as one line on stdout. */
void print_json(json_t *json);
/* Adds K=V to an object. */
int env_option(const struct command *c, const char *text, json_t *env);
/* Number of "SIGSEGV" or "SEGV"; 0: unknown. */
int signal_number(const char *name);

#endif
