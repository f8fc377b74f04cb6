/* carrel logs: what ran in a sandbox and what came out, also after its end. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "signals.h"
#include "stream.h"

enum {
	LAST_DEFAULT = 100,
	LAST_MAX = 1000, /* what is held here at once: pages of at most 16 MiB */
	OUTPUTS_MAX = 999999,
};

struct logs {
	struct command *command;
	bool follow;
	long last, full; /* full: the number of the one output that is wanted, or -1 */
	const char *images;
	struct events events;
	int leave_code;
};

static bool has_ended(json_t *execution)
{
	const char *status = text_of(execution, "status");

	return !status || (strcmp(status, "queued") != 0 && strcmp(status, "running") != 0);
}

/* "--- exe-…  ok  2026-01-31 12:00:00", and the code behind "> ". */
static void show_head(json_t *execution)
{
	const char *status = text_of(execution, "status"), *reason = text_of(execution, "reason");
	const char *id = text_of(execution, "execution_id"), *code = text_of(execution, "code");
	char started[20];

	printf("--- %s  %s%s%s  %s\n", id ? id : "-", status ? status : "-", reason ? ": " : "",
	       reason ? reason : "", time_text(text_of(execution, "started_at"), started));
	while (code && *code) {
		size_t len = strcspn(code, "\n");

		printf("> %.*s\n", (int)len, code);
		code += len + (code[len] == '\n');
	}
}

/* A stored output as the event that it came from. */
static json_t *event_of(json_t *output)
{
	const char *kind = text_of(output, "kind");
	json_t *data = json_object_get(output, "data"), *event;

	if (!kind)
		return NULL;
	if (strcmp(kind, "error") == 0 && json_is_object(data) &&
	    json_array_size(json_object_get(data, "traceback")))
		event = json_copy(data);
	else if (strcmp(kind, "error") == 0)
		event = json_pack("{s:O?}", "traceback", json_object_get(output, "text"));
	else if (json_is_object(data))
		event = json_pack("{s:O}", "data", data);
	else if (strcmp(kind, "result") == 0 || strcmp(kind, "display") == 0)
		event = json_pack("{s:{s:O?}}", "data", "text/plain", json_object_get(output, "text"));
	else
		event = json_pack("{s:O?}", "text", json_object_get(output, "text"));
	json_object_set_new(event, "type", json_string(kind));
	return event;
}

static int show_output(struct logs *l, json_t *execution, json_t *output)
{
	json_t *event = event_of(output);
	int got = event ? events_show(event, "", 0, &l->events) : 0;

	json_decref(event);
	if (got != 0)
		return EXIT_SIGNAL + 13;
	if (json_is_true(json_object_get(output, "truncated"))) {
		long long n = json_integer_value(json_object_get(output, "n"));

		fflush(stdout);
		fprintf(stderr, "[cut here, %lld bytes in all: carrel logs --full %lld %s]\n",
			(long long)json_integer_value(json_object_get(output, "bytes")), n,
			text_of(execution, "execution_id"));
	}
	return EXIT_OK;
}

static int on_signal(int signal, void *arg)
{
	struct logs *l = arg;

	l->leave_code = EXIT_SIGNAL + signal;
	return 1;
}

/* From its first event to its end; the code goes on when we leave. */
static int follow(struct logs *l, json_t *execution)
{
	struct stream stream = {
		.command = l->command, .events = &l->events, .interrupt = on_signal, .arg = l
	};
	int code;

	snprintf(l->events.execution_id, sizeof(l->events.execution_id), "%s",
		 text_of(execution, "execution_id"));
	code = stream_resume(&stream);
	if (l->leave_code)
		return l->leave_code;
	if (code == EXIT_OK && l->events.how[0] && !l->command->json)
		complain(0, "%s", l->events.how);
	return code;
}

/* events.code says afterwards how the code ended, where it was followed. */
static int show(struct logs *l, json_t *execution)
{
	unsigned images = l->events.image_count;
	json_t *output;
	size_t i;

	events_init(&l->events, l->command, l->images);
	l->events.image_count = images;
	if (!l->command->json)
		show_head(execution);
	fflush(stdout);
	if (l->follow && (l->command->json || !has_ended(execution)) && text_of(execution, "execution_id"))
		return follow(l, execution);
	json_array_foreach(json_object_get(execution, "outputs"), i, output)
	{
		int code = show_output(l, execution, output);

		if (code != EXIT_OK)
			return code;
	}
	return EXIT_OK;
}

/* An answer of 404 is told apart: the id may name something else. */
static int get(struct logs *l, const char *path, json_t **ret, bool *ret_none)
{
	struct reply reply;

	if (http_json(&l->command->http, "GET", path, NULL, ret, &reply) == 0)
		return EXIT_OK;
	*ret_none = reply.status == 404;
	return *ret_none ? EXIT_FAILED : complain_reply(l->command, EXIT_FAILED, &reply);
}

static int show_list(struct logs *l, json_t *rows)
{
	int code = EXIT_OK;

	if (l->command->json && !l->follow) {
		print_json(rows);
		return EXIT_OK;
	}
	/* Newest first is how they come; a log is read the other way. */
	for (size_t i = json_array_size(rows); i-- > 0 && code == EXIT_OK;) {
		json_t *row = json_array_get(rows, i);

		if (!l->command->json || !has_ended(row))
			code = show(l, row);
	}
	return code;
}

static int sandbox_logs(struct logs *l, const char *sandbox)
{
	json_t *rows = json_array();
	char *path = NULL;
	int code;

	if (asprintf(&path, "%s/executions?limit=%ld", sandbox, l->last) < 0)
		code = complain(EXIT_FAILED, "Out of memory.");
	else
		code = fetch_pages(l->command, path, "executions", l->last, rows);
	if (code == EXIT_OK)
		code = show_list(l, rows);
	free(path);
	json_decref(rows);
	return code;
}

static int to_stdout(const char *bytes, size_t len, void *arg)
{
	(void)arg;
	return fwrite(bytes, 1, len, stdout) == len ? 0 : -1;
}

static int full_output(struct logs *l, const char *execution)
{
	struct request rq = { .method = "GET", .sink = to_stdout, .interrupt = on_signal, .arg = l };
	struct reply reply;
	char *path = NULL;
	int code = EXIT_OK;

	if (asprintf(&path, "%s/outputs/%ld/full", execution, l->full) < 0)
		return complain(EXIT_FAILED, "Out of memory.");
	rq.path = path;
	if (http_do(&l->command->http, &rq, &reply) < 0)
		code = l->leave_code   ? l->leave_code
		       : reply.stopped ? EXIT_SIGNAL + 13
				       : complain_reply(l->command, EXIT_FAILED, &reply);
	else if (reply.status == 206)
		complain(0, "That is its beginning: the appliance kept no more of it.");
	free(path);
	return code;
}

static int execution_logs(struct logs *l, const char *path, const char *id)
{
	json_t *execution = NULL;
	bool none = false;
	int code;

	if (l->full >= 0)
		return full_output(l, path);
	code = get(l, path, &execution, &none);
	if (none)
		return complain(code, "There is no sandbox or execution %s of yours: see carrel ls -a.", id);
	if (code == EXIT_OK && l->command->json && !l->follow)
		print_json(execution);
	else if (code == EXIT_OK)
		code = show(l, execution);
	if (code == EXIT_OK && l->follow && l->events.ended)
		code = l->events.code;
	json_decref(execution);
	return code;
}

static int show_id(struct logs *l, const char *id)
{
	char *sandbox = http_path("/v1/sandboxes/", id), *execution = http_path("/v1/executions/", id);
	json_t *found = NULL;
	bool none = false;
	int code;

	if (!sandbox || !execution)
		code = complain(EXIT_FAILED, "Out of memory.");
	else if (l->full >= 0)
		code = execution_logs(l, execution, id);
	else
		code = get(l, sandbox, &found, &none);
	if (none)
		code = execution_logs(l, execution, id);
	else if (code == EXIT_OK && found)
		code = sandbox_logs(l, sandbox);
	json_decref(found);
	free(sandbox);
	free(execution);
	return code;
}

/* The sandbox made last, a living one before all that have ended. */
static int show_newest(struct logs *l)
{
	json_t *rows = json_array();
	const char *id;
	int code = fetch_pages(l->command, "/v1/sandboxes?limit=1", "sandboxes", 1, rows);

	if (code == EXIT_OK && json_array_size(rows) == 0)
		code = fetch_pages(l->command, "/v1/sandboxes?limit=1&state=ended", "sandboxes", 1, rows);
	id = text_of(json_array_get(rows, 0), "id");
	if (code == EXIT_OK && !id)
		code = complain(EXIT_FAILED, "You never had a sandbox here: there is nothing to show.");
	else if (code == EXIT_OK)
		code = show_id(l, id);
	json_decref(rows);
	return code;
}

static int take_options(struct logs *l, int argc, char **argv)
{
	static const struct option options[] = { { "follow", no_argument, NULL, 'f' },
						 { "full", required_argument, NULL, 'u' },
						 { "images", required_argument, NULL, 'i' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	int opt, code = EXIT_OK;

	while (code == EXIT_OK && (opt = getopt_long(argc, argv, "fn:", options, NULL)) != -1) {
		if (opt == 'f')
			l->follow = true;
		else if (opt == 'n')
			code = number_option(l->command, "-n", optarg, 1, LAST_MAX, &l->last);
		else if (opt == 'u')
			code = number_option(l->command, "--full", optarg, 0, OUTPUTS_MAX, &l->full);
		else if (opt == 'i')
			l->images = optarg;
		else if (opt == 'j')
			l->command->json = true;
		else
			code = wrong_option(l->command, argv);
	}
	if (code == EXIT_OK && argc - optind > 1)
		code = misused(l->command, "\"%s\" is one word too many", argv[argc - 1]);
	if (code == EXIT_OK && l->full >= 0 && (argc == optind || l->follow || l->command->json))
		code = misused(l->command, "--full takes the id of an execution, and neither -f nor --json");
	return code;
}

static int run(struct command *c, int argc, char **argv)
{
	struct logs l = { .command = c, .last = LAST_DEFAULT, .full = -1 };
	int code = take_options(&l, argc, argv);

	if (code != EXIT_OK)
		return code;
	if ((l.follow || l.full >= 0) && signals_init() < 0)
		return complain(EXIT_FAILED, "Signals cannot be caught.");
	return optind < argc ? show_id(&l, argv[optind]) : show_newest(&l);
}

const struct verb verb_logs = {
	.name = "logs",
	.usage = "[-f] [-n N] [--images DIR] [--json] [ID | EXECUTION] | --full N EXECUTION",
	.help = "show what ran in a sandbox and what came out\n\n"
		"Of a sandbox, also one that has ended, or of one execution; without either, of the\n"
		"sandbox made last. Each begins with its id, status and code.\n"
		"  -f, --follow   stay with those that run or wait, to their end; the exit code of one\n"
		"                 EXECUTION is then the code's. Ctrl-C leaves, the code goes on\n"
		"  -n N           the last N executions (100)\n"
		"  --images DIR   save pictures as DIR/carrel-1.png and so on\n"
		"  --full N       the whole of output N, as it was, on stdout\n"
		"  --json         as JSON; with -f the events of what runs, one JSON object a line",
	.run = run,
};
