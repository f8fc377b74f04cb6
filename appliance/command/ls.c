/* carrel ls: the sandboxes of this key's owner. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "table.h"

enum { PAGES_MAX = 1000 }; /* an appliance that never says null must not keep us for ever */

/* All pages of one query into rows. */
static int fetch(struct command *c, const char *query, json_t *rows)
{
	char *path = NULL;
	int code = EXIT_OK;

	if (asprintf(&path, "/v1/sandboxes?limit=1000%s", query) < 0)
		return complain(EXIT_FAILED, "Out of memory.");
	for (int page = 0; path && page < PAGES_MAX && code == EXIT_OK; page++) {
		json_t *answer = NULL;
		struct reply reply;
		char *before = NULL;
		const char *next;

		if (http_json(&c->http, "GET", path, NULL, &answer, &reply) < 0)
			code = complain_reply(c, EXIT_FAILED, &reply);
		else
			json_array_extend(rows, json_object_get(answer, "sandboxes"));
		free(path);
		path = NULL;
		next = json_string_value(json_object_get(answer, "next"));
		if (next && asprintf(&before, "/v1/sandboxes?limit=1000%s&cursor=", query) > 0)
			path = http_path(before, next);
		free(before);
		json_decref(answer);
	}
	free(path);
	return code;
}

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

static const char *text_of(json_t *row, const char *key)
{
	return json_string_value(json_object_get(row, key));
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
		char buf[32], created[20] = "";

		snprintf(created, sizeof(created), "%s",
			 text_of(row, "created_at") ? text_of(row, "created_at") : "");
		created[strcspn(created, "T")] = created[0] ? ' ' : '\0';
		table_row(&t, text_of(row, "id"), state, text_of(row, "engine"), text_of(row, "template"),
			  text_of(row, "started"), created,
			  reason ? reason : left(text_of(row, "deadline"), buf));
	}
	table_print(&t);
	table_free(&t);
}

static int run(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { { "all", no_argument, NULL, 'a' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	bool all = false;
	json_t *rows;
	int opt, code;

	while ((opt = getopt_long(argc, argv, "+a", options, NULL)) != -1) {
		if (opt == 'a')
			all = true;
		else if (opt == 'j')
			c->json = true;
		else
			return wrong_option(c, argv);
	}
	if (optind < argc)
		return misused(c, "\"%s\" is one word too many", argv[optind]);
	rows = json_array();
	code = fetch(c, "", rows);
	if (code == EXIT_OK && all)
		code = fetch(c, "&state=ended", rows);
	if (code == EXIT_OK && c->json)
		print_json(rows);
	else if (code == EXIT_OK)
		print_table(rows);
	json_decref(rows);
	return code;
}

const struct verb verb_ls = {
	.name = "ls",
	.usage = "[-a] [--json]",
	.help = "list your sandboxes\n\n"
		"  -a, --all   those that have ended as well, with the reason in the last column\n"
		"  --json      as a JSON array",
	.run = run,
};
