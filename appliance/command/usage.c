/* carrel usage: what sandboxes cost, by owner and by a key of their metadata. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "table.h"

struct usage {
	struct command *command;
	const char *owner, *tag;
	struct span span;
	bool csv;
};

static char *usage_path(const struct usage *u)
{
	char *path = strdup(u->csv ? "/v1/usage?format=csv" : "/v1/usage?format=json");

	span_query(&path, &u->span);
	http_query(&path, "owner", u->owner);
	http_query(&path, "tag", u->tag);
	return path;
}

static char *ends_text(json_t *ends)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	const char *reason, *between = "";
	json_t *count;

	if (!out)
		return NULL;
	json_object_foreach(ends, reason, count)
	{
		fprintf(out, "%s%s %lld", between, reason, (long long)json_integer_value(count));
		between = ", ";
	}
	return fclose(out) == 0 ? text : NULL;
}

static void print_table(json_t *rows, const char *tag)
{
	struct table t;
	json_t *row;
	size_t i;

	table_init(&t, 7);
	table_row(&t, "OWNER", tag ? tag : "ID", "SANDBOXES", "CPU S", "MIB S", "BYTES", "ENDS");
	json_array_foreach(rows, i, row)
	{
		char numbers[4][32], *ends = ends_text(json_object_get(row, "ends"));

		snprintf(numbers[0], 32, "%lld", (long long)json_integer_value(json_object_get(row, "sandboxes")));
		snprintf(numbers[1], 32, "%.1f", json_number_value(json_object_get(row, "cpu_s")));
		snprintf(numbers[2], 32, "%.0f", json_number_value(json_object_get(row, "mib_s")));
		snprintf(numbers[3], 32, "%lld", (long long)json_integer_value(json_object_get(row, "bytes_stored")));
		table_row(&t, text_of(row, "owner"), text_of(row, tag ? "value" : "owner_id"), numbers[0], numbers[1],
			  numbers[2], numbers[3], ends && *ends ? ends : NULL);
		free(ends);
	}
	table_print(&t);
	table_free(&t);
}

static int print_bytes(const char *bytes, size_t len, void *arg)
{
	(void)arg;
	return fwrite(bytes, 1, len, stdout) == len ? 0 : -1;
}

static int show(struct usage *u, const char *path)
{
	struct request raw = { .method = "GET", .path = path, .sink = print_bytes };
	struct command *c = u->command;
	json_t *answer = NULL;
	struct reply reply;
	int err = u->csv ? http_do(&c->http, &raw, &reply) : http_json(&c->http, "GET", path, NULL, &answer, &reply);

	if (err < 0)
		return complain_reply(c, EXIT_FAILED, &reply);
	if (!u->csv && c->json)
		print_json(answer);
	else if (!u->csv)
		print_table(json_object_get(answer, "usage"), u->tag);
	json_decref(answer);
	return EXIT_OK;
}

static int run(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { SPAN_OPTIONS,
						 { "owner", required_argument, NULL, 'o' },
						 { "tag", required_argument, NULL, 't' },
						 { "csv", no_argument, NULL, 'c' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	struct usage u = { .command = c };
	int opt, code = EXIT_OK;
	char *path;

	while (code == EXIT_OK && (opt = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (opt == 's' || opt == 'u')
			code = span_option(c, &u.span, opt, optarg);
		else if (opt == 'o')
			u.owner = optarg;
		else if (opt == 't')
			u.tag = optarg;
		else if (opt == 'c')
			u.csv = true;
		else if (opt == 'j')
			c->json = true;
		else
			return wrong_option(c, argv);
	}
	if (code == EXIT_OK && optind < argc)
		return misused(c, "\"%s\" is one word too many", argv[optind]);
	if (code != EXIT_OK)
		return code;
	path = usage_path(&u);
	code = path ? show(&u, path) : complain(EXIT_FAILED, "Out of memory.");
	free(path);
	return code;
}

const struct verb verb_usage = {
	.name = "usage",
	.usage = "[--since T] [--until T] [--owner ID] [--tag KEY] [--csv | --json]",
	.help = "what sandboxes cost: processor seconds, MiB-seconds, bytes kept, ends by reason\n\n"
		"One row an owner, of the last 30 days. An admin's key sees all owners, any other its own.\n"
		"  --since T, --until T   a span back from now (12h, 30d) or a time (2030-01-31T12:00:00Z), by whole hours\n"
		"  --owner ID             of that owner only\n"
		"  --tag KEY              one row for each value of that key in the sandboxes' metadata\n"
		"  --csv                  for a spreadsheet",
	.run = run,
};
