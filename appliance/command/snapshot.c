/* carrel snapshot: sandboxes kept under a name, to make others from. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "table.h"

static int create(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { { "name", required_argument, NULL, 'n' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	json_t *body = json_object(), *snapshot = NULL;
	char *sandbox, *path = NULL;
	struct reply reply;
	int opt, code = EXIT_OK;

	while (code == EXIT_OK && (opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'j')
			c->json = true;
		else if (opt != 'n')
			code = wrong_option(c, argv);
		else if (json_object_set_new(body, "name", json_string(optarg)) < 0)
			code = misused(c, "the name is not UTF-8");
	}
	if (code == EXIT_OK && argc - optind != 1)
		code = misused(c, "of which sandbox? it takes one ID");
	if (code != EXIT_OK) {
		json_decref(body);
		return code;
	}
	sandbox = http_path("/v1/sandboxes/", argv[optind]);
	if (!sandbox || asprintf(&path, "%s/snapshots", sandbox) < 0)
		code = complain(EXIT_FAILED, "Out of memory.");
	else if (http_json(&c->http, "POST", path, body, &snapshot, &reply) < 0)
		code = complain_reply(c, EXIT_FAILED, &reply);
	else if (c->json)
		print_json(snapshot);
	else
		printf("%s\n", text_of(snapshot, "id") ? text_of(snapshot, "id") : "");
	json_decref(snapshot);
	json_decref(body);
	free(sandbox);
	free(path);
	return code;
}

static void print_table(json_t *rows)
{
	struct table t;
	json_t *row;
	size_t i;

	table_init(&t, 6);
	table_row(&t, "ID", "NAME", "SANDBOX", "TEMPLATE", "SIZE", "CREATED");
	json_array_foreach(rows, i, row)
	{
		char size[32], created[20];

		snprintf(size, sizeof(size), "%lld MB",
			 (long long)json_integer_value(json_object_get(row, "bytes")) >> 20);
		table_row(&t, text_of(row, "id"), text_of(row, "name"), text_of(row, "sandbox_id"),
			  text_of(row, "template"), size, time_text(text_of(row, "created_at"), created));
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
	rows = json_array();
	code = fetch_pages(c, "/v1/snapshots?limit=1000", "snapshots", 0, rows);
	if (code == EXIT_OK && c->json)
		print_json(rows);
	else if (code == EXIT_OK)
		print_table(rows);
	json_decref(rows);
	return code;
}

static int rm(struct command *c, int argc, char **argv)
{
	char **words = words_only(c, argc, argv);
	int code = EXIT_OK;

	if (!words)
		return EXIT_USAGE;
	if (!*words)
		return misused(c, "which snapshot?");
	for (; *words && code != EXIT_UNREACHABLE; words++) {
		char *path = http_path("/v1/snapshots/", *words);
		struct reply reply;

		if (!path)
			return complain(EXIT_FAILED, "Out of memory.");
		if (http_json(&c->http, "DELETE", path, NULL, NULL, &reply) < 0)
			code = complain_reply(c, EXIT_FAILED, &reply);
		else
			printf("%s\n", *words);
		free(path);
	}
	return code;
}

static int run(struct command *c, int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "create") == 0)
		return create(c, argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "ls") == 0)
		return list(c, argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "rm") == 0)
		return rm(c, argc - 1, argv + 1);
	return misused(c, "what? create, ls or rm");
}

const struct verb verb_snapshot = {
	.name = "snapshot",
	.usage = "create [--name NAME] SANDBOX | ls | rm ID… [--json]",
	.help = "keep sandboxes as they are, to make others from\n\n"
		"create prints the snapshot's id; the sandbox goes on. carrel run --snapshot ID starts from\n"
		"one: variables, files and running programs are there.\n"
		"  --name NAME   what ls shows beside the id",
	.nouns = "create ls rm",
	.run = run,
};
