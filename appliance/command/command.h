/* carrel, the command: one verb, one file, one entry in the table of main.c.
 *
 * Functions that give an exit code have said on stderr what is wrong ("carrel: …")
 * when it is not EXIT_OK; they return it upward unchanged.
 */
#ifndef CARREL_COMMAND_H
#define CARREL_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "http.h"

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_UNREACHABLE = 3,
	EXIT_TIMEOUT = 124, /* as timeout(1) */
	EXIT_SIGNAL = 128,  /* plus its number, as a shell */
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
	const char *nouns; /* what stands behind the verb, by spaces ("create rm"), or NULL */
	bool local;        /* needs no appliance: http is not set up, unless by need_appliance() */
	/* argv[0] is the verb. An exit code. */
	int (*run)(struct command *c, int argc, char **argv);
};

extern const struct verb verb_run, verb_ls, verb_exec, verb_shell, verb_cp, verb_logs, verb_kill, verb_pause,
	verb_resume, verb_fork, verb_snapshot, verb_kernel, verb_connection, verb_kernelspec, verb_template, verb_owner, verb_key,
	verb_audit, verb_usage, verb_backup, verb_restore, verb_doctor, verb_help;
/* All of them, in the order of the help; ends with NULL. */
extern const struct verb *const verbs[];
/* NULL: there is none of that name. */
const struct verb *verb_find(const char *name);
void print_help(FILE *to);
void print_verb_help(const struct verb *verb);

/* Finds the appliance and sets up http, which is freed behind the verb. An exit code. */
int need_appliance(struct command *c);
/* "carrel: …" on stderr; code comes back. */
int complain(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "carrel VERB: …" and where to find help; EXIT_USAGE. */
int misused(const struct command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What getopt_long() gave '?' for; EXIT_USAGE. */
int wrong_option(const struct command *c, char **argv);
/* What the appliance answered or why it did not. */
int complain_reply(const struct command *c, int code, const struct reply *reply);
/* A whole number from low to high, or EXIT_USAGE. */
int number_option(const struct command *c, const char *name, const char *text, long low, long high,
		  long *ret);
/* All rows of a list's pages, or max of them (0: all), are appended to rows. path: with a query, "…?limit=N".
 */
int fetch_pages(struct command *c, const char *path, const char *name, size_t max, json_t *rows);
/* The string of that name, or NULL. */
const char *text_of(json_t *object, const char *key);
/* For verbs whose only option is --json: the words behind it, or NULL after wrong usage. */
char **words_only(struct command *c, int argc, char **argv);
/* "2026-01-31 12:00:00" of an RFC 3339 time, or "-". */
const char *time_text(const char *time, char ret[20]);
/* Prints as one line on stdout. */
void print_json(json_t *json);
/* "30d" and the like from now on (sign 1) or back (-1) as a time; what is no such span goes as it is. */
int moment_text(struct command *c, const char *option, const char *text, int sign, char *ret, size_t size);
/* What --since and --until say; "" where they are not given. */
struct span {
	char since[40], until[40];
};
#define SPAN_OPTIONS { "since", required_argument, NULL, 's' }, { "until", required_argument, NULL, 'u' }
/* Takes one of SPAN_OPTIONS. An exit code. */
int span_option(struct command *c, struct span *span, int opt, const char *text);
void span_query(char **path, const struct span *span);
/* Adds K=V to an object. */
int env_option(const struct command *c, const char *text, json_t *env);
/* Number of "SIGSEGV" or "SEGV"; 0: unknown. */
int signal_number(const char *name);

#endif
