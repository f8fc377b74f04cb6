/* carrel ls: the sandboxes of this key's owner. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "table.h"

/* "4m12s" from now to an RFC 3339 time; NULL text gives "-". */
static const char *left(const char *deadline, char buf[32])
{
	struct tm tm = { 0 };
	long s;

	if (!deadline || !strptime(deadline, "%Y-%m-%dT%H:%M:%S", &tm))
		return NULL;
	s = (long)(timegm(&tm) - time(NULL));
	if (s <= 0)
		return "now";
	if (s < 60)
		snprintf(buf, 32, "%lds", s);
	else if (s < 3600)
		snprintf(buf, 32, "%ldm%02lds", s / 60, s % 60);
	else
		snprintf(buf, 32, "%ldh%02ldm", s / 3600, s / 60 % 60);
	return buf;
}

static void print_table(json_t *rows)
{
	struct table t;
	json_t *row;
	size_t i;

	table_init(&t, 7);
	table_row(&t, "ID", "STATE", "ENGINE", "TEMPLATE", "STARTED", "CREATED", "LEFT");
	json_array_foreach(rows, i, row)
	{
		const char *state = text_of(row, "state"), *reason = text_of(row, "end_reason");
		char buf[32], created[20];

		table_row(&t, text_of(row, "id"), state, text_of(row, "engine"), text_of(row, "template"),
			  text_of(row, "started"), time_text(text_of(row, "created_at"), created),
			  reason ? reason : left(text_of(row, "deadline"), buf));
	}
	table_print(&t);
	table_free(&t);
}

static void print_ids(json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) if (text_of(row, "id")) puts(text_of(row, "id"));
}

static int run(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { { "all", no_argument, NULL, 'a' },
						 { "quiet", no_argument, NULL, 'q' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	bool all = false, quiet = false;
	json_t *rows;
	int opt, code;

	while ((opt = getopt_long(argc, argv, "+aq", options, NULL)) != -1) {
		if (opt == 'a')
			all = true;
		else if (opt == 'q')
			quiet = true;
		else if (opt == 'j')
			c->json = true;
		else
			return wrong_option(c, argv);
	}
	if (optind < argc)
		return misused(c, "\"%s\" is one word too many", argv[optind]);
	rows = json_array();
	code = fetch_pages(c, "/v1/sandboxes?limit=1000", "sandboxes", 0, rows);
	if (code == EXIT_OK && all)
		code = fetch_pages(c, "/v1/sandboxes?limit=1000&state=ended", "sandboxes", 0, rows);
	if (code == EXIT_OK && c->json)
		print_json(rows);
	else if (code == EXIT_OK && quiet)
		print_ids(rows);
	else if (code == EXIT_OK)
		print_table(rows);
	json_decref(rows);
	return code;
}

const struct verb verb_ls = {
	.name = "ls",
	.usage = "[-a] [-q | --json]",
	.help = "list your sandboxes\n\n"
		"  -a, --all   those that have ended as well, with the reason in the last column\n"
		"  -q, --quiet ids only, one a line\n"
		"  --json      as a JSON array",
	.run = run,
};
