/* carrel help: the verbs, for people, for man and for a shell's completion. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "man.h"

const struct verb *const verbs[] = { &verb_run,    &verb_ls,     &verb_exec,     &verb_shell,
				     &verb_cp,     &verb_logs,   &verb_kill,     &verb_pause,
				     &verb_resume, &verb_fork,   &verb_snapshot, &verb_kernel,
				     &verb_connection, &verb_kernelspec, &verb_template, &verb_owner,
				     &verb_key,    &verb_audit,  &verb_usage,  &verb_backup, &verb_restore, &verb_doctor, &verb_help,   NULL };

const char help_where[] =
	"The appliance is found by CARREL_URL and CARREL_TOKEN, else by /etc/carrel/carrel.conf\n"
	"(lines URL=…, TOKEN=… and, for a certificate of one's own, CACERT=…; CARREL_CONF names\n"
	"another file, CARREL_CACERT such a certificate), else by the directory STATE\n"
	"(./state) of a local `make run`. Proxies are taken from the environment as curl takes\n"
	"them (https_proxy, no_proxy), never for this machine's own addresses.\n";

const char help_codes[] = "  0        done\n"
			  "  1        failed; stderr says why\n"
			  "  2        wrong usage\n"
			  "  3        no appliance answers\n"
			  "  124      run, exec: out of time\n"
			  "  128 + N  ended by signal N, Ctrl-C is 130\n"
			  "run, exec, shell and logs -f EXECUTION give the code's own exit code otherwise.\n";

const struct verb *verb_find(const char *name)
{
	for (int i = 0; verbs[i]; i++)
		if (strcmp(verbs[i]->name, name) == 0)
			return verbs[i];
	return NULL;
}

void print_help(FILE *to)
{
	fputs("usage: carrel [--json] VERB …\n       carrel --version\n\n", to);
	for (int i = 0; verbs[i]; i++)
		fprintf(to, "  %-10s %.*s\n", verbs[i]->name, (int)strcspn(verbs[i]->help, "\n"),
			verbs[i]->help);
	fprintf(to,
		"\ncarrel VERB --help says more; --json makes a verb's answer, and its failure on stderr,\n"
		"JSON. %s\nExit codes:\n%s",
		help_where, help_codes);
}

void print_verb_help(const struct verb *verb)
{
	printf("usage: carrel %s%s%s\n\n%s\n", verb->name, *verb->usage ? " " : "", verb->usage, verb->help);
}

/* Each --word of a text, once a mention: who completes sorts. */
static void print_options(const char *text)
{
	for (const char *at = strstr(text, "--"); at; at = strstr(at, "--")) {
		size_t len = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");

		/* "-- PROGRAM" is no option, and "a--b" is prose. */
		if (len > 2 && (at == text || strchr(" [|\n", at[-1])))
			printf("%.*s\n", (int)len, at);
		at += len;
	}
}

/* What may stand behind "carrel", or behind a verb. */
static int print_words(const struct command *c, const char *name)
{
	const struct verb *verb = name ? verb_find(name) : NULL;

	if (name && !verb)
		return misused(c, "there is no verb \"%s\"", name);
	if (!verb) {
		for (int i = 0; verbs[i]; i++)
			puts(verbs[i]->name);
		puts("--json\n--help\n--version");
		return EXIT_OK;
	}
	for (const char *at = verb->nouns; at && *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");

		printf("%.*s\n", (int)len, at);
		at += len;
	}
	print_options(verb->usage);
	print_options(verb->help);
	puts("--help");
	return EXIT_OK;
}

static int run(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { { "man", no_argument, NULL, 'm' },
						 { "words", no_argument, NULL, 'w' },
						 { 0 } };
	const struct verb *verb;
	int opt, as = 0;
	const char *name;

	while ((opt = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (opt != 'm' && opt != 'w')
			return wrong_option(c, argv);
		as = opt;
	}
	name = optind < argc ? argv[optind] : NULL;
	if (argc - optind > (as == 'm' ? 0 : 1))
		return misused(c, "\"%s\" is one word too many", argv[argc - 1]);
	if (as == 'm') {
		man_print(stdout);
		return EXIT_OK;
	}
	if (as == 'w')
		return print_words(c, name);
	verb = name ? verb_find(name) : NULL;
	if (name && !verb)
		return misused(c, "there is no verb \"%s\"", name);
	if (verb)
		print_verb_help(verb);
	else
		print_help(stdout);
	return EXIT_OK;
}

const struct verb verb_help = {
	.name = "help",
	.usage = "[VERB] | --man | --words [VERB]",
	.help = "say what there is\n\n"
		"  --man     the manual page's source: carrel help --man | man -l -\n"
		"  --words   verbs, or a verb's options, one a line: for a shell's completion",
	.local = true,
	.run = run,
};
