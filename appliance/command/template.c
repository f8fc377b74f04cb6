/* carrel template: what sandboxes can be made of. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "table.h"
#include "template.h"

static const char *languages_text(json_t *template, char *ret, size_t size)
{
	json_t *language;
	size_t i, len = 0;

	ret[0] = '\0';
	json_array_foreach(json_object_get(template, "languages"), i, language)
	{
		const char *name = json_string_value(language);

		if (!name)
			name = text_of(language, "name");
		if (!name || len + strlen(name) + 3 > size)
			continue;
		len += snprintf(ret + len, size - len, "%s%s", len ? ", " : "", name);
	}
	return ret;
}

static void print_table(json_t *rows)
{
	struct table t;
	json_t *row;
	size_t i;

	table_init(&t, 6);
	table_row(&t, "NAME", "LANGUAGES", "MEMORY", "CPUS", "BUILT", "IMAGE");
	json_array_foreach(rows, i, row)
	{
		json_t *limits = json_object_get(row, "limits");
		char languages[200], memory[32], cpus[32], built[20];

		snprintf(memory, sizeof(memory), "%lld MB",
			 (long long)json_integer_value(json_object_get(limits, "memory_mb")));
		snprintf(cpus, sizeof(cpus), "%g", json_number_value(json_object_get(limits, "cpus")));
		table_row(&t, text_of(row, "name"), languages_text(row, languages, sizeof(languages)), memory,
			  cpus, time_text(text_of(row, "built_at"), built), text_of(row, "image"));
	}
	table_print(&t);
	table_free(&t);
}

static int list(struct command *c, int argc, char **argv)
{
	char **words = words_only(c, argc, argv);
	json_t *rows;
	int code;

	if (!words)
		return EXIT_USAGE;
	if (*words)
		return misused(c, "\"%s\" is one word too many", *words);
	code = need_appliance(c);
	if (code != EXIT_OK)
		return code;
	rows = json_array();
	code = fetch_pages(c, "/v1/templates?limit=1000", "templates", 0, rows);
	if (code == EXIT_OK && c->json)
		print_json(rows);
	else if (code == EXIT_OK)
		print_table(rows);
	json_decref(rows);
	return code;
}

static int build(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { { "name", required_argument, NULL, 'n' },
						 { "no-wait", no_argument, NULL, 'w' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	const char *name = NULL;
	bool wait = true;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'n')
			name = optarg;
		else if (opt == 'w')
			wait = false;
		else if (opt == 'j')
			c->json = true;
		else
			return wrong_option(c, argv);
	}
	if (argc - optind != 1)
		return misused(c, "of which folder? it takes one DIR");
	return template_build(c, argv[optind], name, wait);
}

static int removal(struct command *c, int argc, char **argv)
{
	char **words = words_only(c, argc, argv);
	const char *name[] = { "rm", NULL, NULL };
	int code;

	if (!words)
		return EXIT_USAGE;
	if (!words[0] || words[1])
		return misused(c, "which? it takes one NAME");
	name[1] = words[0];
	code = template_run(name, NULL, 0);
	return code == EXIT_OK ? template_sweep() : code;
}

static int sweep(struct command *c, int argc, char **argv)
{
	char **words = words_only(c, argc, argv);

	if (!words)
		return EXIT_USAGE;
	return *words ? misused(c, "\"%s\" is one word too many", *words) : template_sweep();
}

static int run(struct command *c, int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(struct command *c, int argc, char **argv);
	} nouns[] = { { "ls", list }, { "build", build }, { "rm", removal }, { "sweep", sweep } };

	for (size_t i = 0; argc > 1 && i < sizeof(nouns) / sizeof(nouns[0]); i++) {
		if (strcmp(argv[1], nouns[i].name) != 0)
			continue;
		if (i > 0 && geteuid() != 0)
			return complain(EXIT_FAILED, "carrel template %s needs root, as building images does: use sudo.",
					argv[1]);
		return nouns[i].run(c, argc - 1, argv + 1);
	}
	return misused(c, "what? ls, build DIR, rm NAME or sweep");
}

const struct verb verb_template = {
	.name = "template",
	.usage = "ls [--json] | build DIR [--name NAME] [--no-wait] [--json] | rm NAME | sweep",
	.help = "list and make what sandboxes can be made of\n\n"
		"ls     each template with its languages, the limits a sandbox has unless told otherwise, when its\n"
		"       image was built, and the image's hash. carrel run --template NAME uses one\n"
		"build  makes the template whose template.conf lies in DIR, or makes it anew, under the folder's name\n"
		"       or NAME; where an appliance runs, waits until sandboxes of it are cloned warm,\n"
		"       unless --no-wait says not to\n"
		"rm     takes the name away; sandboxes of it go on, and their image stays as long\n"
		"sweep  removes the images of templates that nothing uses any more, as the appliance does by itself\n\n"
		"All but ls work on this machine's appliance (STATE, CARREL_CACHE), as root. What a template.conf\n"
		"can say: kernels/image/template.conf.",
	.nouns = "ls build rm sweep",
	.local = true,
	.run = run,
};
