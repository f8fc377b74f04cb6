/* carrel template: what sandboxes can be made of. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "table.h"

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

static int run(struct command *c, int argc, char **argv)
{
	char **words;
	json_t *rows;
	int code;

	if (argc < 2 || strcmp(argv[1], "ls") != 0)
		return misused(c, "what? ls");
	words = words_only(c, argc - 1, argv + 1);
	if (!words)
		return EXIT_USAGE;
	if (*words)
		return misused(c, "\"%s\" is one word too many", *words);
	rows = json_array();
	code = fetch_pages(c, "/v1/templates?limit=1000", "templates", 0, rows);
	if (code == EXIT_OK && c->json)
		print_json(rows);
	else if (code == EXIT_OK)
		print_table(rows);
	json_decref(rows);
	return code;
}

const struct verb verb_template = {
	.name = "template",
	.usage = "ls [--json]",
	.help = "list what sandboxes can be made of\n\n"
		"Each template with its languages, the limits a sandbox has unless told otherwise, when its\n"
		"image was built, and the image's hash. carrel run --template NAME uses one.",
	.nouns = "ls",
	.run = run,
};
