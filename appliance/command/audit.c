/* carrel audit: who did what, as the appliance wrote it down. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "lines.h"

struct audit {
	struct command *command;
	const char *owner, *sandbox;
	struct span span;
	int64_t after; /* the last row that was printed */
	unsigned rows; /* of this page */
	struct lines lines;
	int bad;
};

static void row_print(json_t *row)
{
	const char *sandbox = text_of(row, "sandbox_id"), *owner = text_of(row, "owner_id"), *key = text_of(row, "key_id");
	json_t *detail = json_object_get(row, "detail");
	char at[20], *text = detail ? json_dumps(detail, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

	printf("%s  %s  %s  %s  %s  %s%s%s\n", time_text(text_of(row, "at"), at), owner ? owner : "-", key ? key : "-",
	       text_of(row, "action"), text_of(row, "result"), sandbox ? sandbox : "-", text ? "  " : "",
	       text ? text : "");
	free(text);
}

static int on_row(json_t *row, const char *text, size_t len, void *arg)
{
	struct audit *a = arg;

	a->after = json_integer_value(json_object_get(row, "seq"));
	a->rows++;
	if (a->command->json)
		printf("%.*s\n", (int)len, text);
	else
		row_print(row);
	return ferror(stdout) ? -EPIPE : 0;
}

static int on_bytes(const char *bytes, size_t len, void *arg)
{
	struct audit *a = arg;

	a->bad = lines_feed(&a->lines, bytes, len);
	return a->bad;
}

static char *page_path(const struct audit *a)
{
	char after[24], *path = strdup("/v1/audit?limit=1000");

	snprintf(after, sizeof(after), "%" PRId64, a->after);
	http_query(&path, "after", after);
	span_query(&path, &a->span);
	http_query(&path, "owner", a->owner);
	http_query(&path, "sandbox", a->sandbox);
	return path;
}

static int page(struct audit *a)
{
	struct request rq = { .method = "GET", .path = page_path(a), .sink = on_bytes, .arg = a };
	struct reply reply;
	int code = EXIT_OK;

	if (!rq.path)
		return complain(EXIT_FAILED, "Out of memory.");
	a->rows = 0;
	a->lines = (struct lines){ .each = on_row, .arg = a };
	if (http_do(&a->command->http, &rq, &reply) < 0)
		code = a->bad ? complain(EXIT_FAILED, "The appliance's answer is no audit: %s.", strerror(-a->bad))
			      : complain_reply(a->command, EXIT_FAILED, &reply);
	lines_free(&a->lines);
	free((char *)rq.path);
	return code;
}

static int run(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { SPAN_OPTIONS,
						 { "owner", required_argument, NULL, 'o' },
						 { "sandbox", required_argument, NULL, 'b' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	struct audit a = { .command = c };
	int opt, code = EXIT_OK;

	while (code == EXIT_OK && (opt = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (opt == 's' || opt == 'u')
			code = span_option(c, &a.span, opt, optarg);
		else if (opt == 'o')
			a.owner = optarg;
		else if (opt == 'b')
			a.sandbox = optarg;
		else if (opt == 'j')
			c->json = true;
		else
			return wrong_option(c, argv);
	}
	if (code == EXIT_OK && optind < argc)
		return misused(c, "\"%s\" is one word too many", argv[optind]);
	/* Until a page is empty: rows that come meanwhile are the last ones. */
	do
		code = code == EXIT_OK ? page(&a) : code;
	while (code == EXIT_OK && a.rows > 0);
	return code;
}

const struct verb verb_audit = {
	.name = "audit",
	.usage = "[--since T] [--until T] [--owner ID] [--sandbox ID] [--json]",
	.help = "who did what: creates, cells, processes, files, keys, and what was refused\n\n"
		"One row a line, oldest first: time, owner, key, action, result, sandbox, details. An admin's\n"
		"key sees all owners, any other its own.\n"
		"  --since T, --until T   a span back from now (90m, 12h, 30d) or a time (2030-01-31T12:00:00Z)\n"
		"  --owner ID             of that owner only\n"
		"  --sandbox ID           of that sandbox only\n"
		"  --json                 as JSON lines, with everything that is known",
	.run = run,
};
