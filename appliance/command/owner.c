/* carrel owner, key: who may use the appliance. All needs an admin's key. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "table.h"

enum {
	QUOTA_MAX = 1000000,
	HISTORY_DAYS_MAX = 36500, /* as the appliance's */
	HISTORY_MB_MAX = 1024 * 1024 * 1024,
};

struct access {
	struct command *command;
	const char *name, *expires;
	long quota, days, mb; /* -1: not given */
	json_t *admin; /* NULL: as the appliance does by itself */
};

/* Options of all nouns; allowed: those of this one. argv[0] is the noun. */
static int take_options(struct access *a, int argc, char **argv, const char *allowed)
{
	static const struct option options[] = { { "quota", required_argument, NULL, 'q' },
						 { "history-days", required_argument, NULL, 'd' },
						 { "history-mb", required_argument, NULL, 'm' },
						 { "name", required_argument, NULL, 'n' },
						 { "expires", required_argument, NULL, 'e' },
						 { "admin", no_argument, NULL, 'a' },
						 { "no-admin", no_argument, NULL, 'A' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	int opt, code = EXIT_OK;

	while (code == EXIT_OK && (opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == '?' || (opt != 'j' && !strchr(allowed, opt)))
			return wrong_option(a->command, argv);
		if (opt == 'j')
			a->command->json = true;
		else if (opt == 'n')
			a->name = optarg;
		else if (opt == 'e')
			a->expires = optarg;
		else if (opt == 'a' || opt == 'A')
			a->admin = json_boolean(opt == 'a');
		else if (opt == 'd')
			code = number_option(a->command, "--history-days", optarg, 1, HISTORY_DAYS_MAX, &a->days);
		else if (opt == 'm')
			code = number_option(a->command, "--history-mb", optarg, 1, HISTORY_MB_MAX, &a->mb);
		else
			code = number_option(a->command, "--quota", optarg, 0, QUOTA_MAX, &a->quota);
	}
	return code;
}

static int ask(struct command *c, const char *method, const char *path, json_t *body, json_t **ret)
{
	struct reply reply;

	if (http_json(&c->http, method, path, body, ret, &reply) < 0)
		return complain_reply(c, EXIT_FAILED, &reply);
	if (text_of(*ret, "id"))
		return EXIT_OK;
	json_decref(*ret);
	*ret = NULL;
	return complain(EXIT_FAILED, "The appliance's answer names nothing that was made.");
}

/* What was asked for; an empty object gives back what is everybody's. */
static json_t *quota_of(const struct access *a)
{
	json_t *quota = json_object();

	if (a->quota >= 0)
		json_object_set_new(quota, "sandboxes", json_integer(a->quota));
	if (a->days >= 0)
		json_object_set_new(quota, "history_days", json_integer(a->days));
	if (a->mb >= 0)
		json_object_set_new(quota, "history_mb", json_integer(a->mb));
	return quota;
}

static int owner_set(struct access *a, const char *id)
{
	struct command *c = a->command;
	char *path = http_path("/v1/owners/", id);
	json_t *body = json_pack("{s:o}", "quota", quota_of(a)), *owner = NULL;
	int code = path && body ? ask(c, "PATCH", path, body, &owner) : complain(EXIT_FAILED, "Out of memory.");

	if (code == EXIT_OK && c->json)
		print_json(owner);
	free(path);
	json_decref(body);
	json_decref(owner);
	return code;
}

static int owner_create(struct access *a, const char *name)
{
	struct command *c = a->command;
	json_t *body = json_pack("{s:s}", "name", name), *owner = NULL;
	int code;

	if (!body)
		return misused(c, "the name is not UTF-8");
	if (a->quota >= 0 || a->days >= 0 || a->mb >= 0)
		json_object_set_new(body, "quota", quota_of(a));
	code = ask(c, "POST", "/v1/owners", body, &owner);
	if (code == EXIT_OK && c->json)
		print_json(owner);
	else if (code == EXIT_OK)
		printf("%s\n", text_of(owner, "id"));
	json_decref(body);
	json_decref(owner);
	return code;
}

/* The key alone on stdout, so that it can be put where it belongs: KEY=$(carrel key create …). */
static void show_key(json_t *key)
{
	const char *id = text_of(key, "id"), *text = text_of(key, "key");

	printf("%s\n", text ? text : "");
	fflush(stdout);
	fprintf(stderr, "[%s: the key is shown this once; carrel key rm %s ends it]\n", id, id);
}

static int key_create(struct access *a, const char *owner)
{
	struct command *c = a->command;
	json_t *body = json_object(), *key = NULL;
	char expires[64], *before = http_path("/v1/owners/", owner), *path = NULL;
	int code = a->expires ? moment_text(c, "--expires", a->expires, 1, expires, sizeof(expires)) : EXIT_OK;

	if (code == EXIT_OK && a->name && json_object_set_new(body, "name", json_string(a->name)) < 0)
		code = misused(c, "the name is not UTF-8");
	if (code == EXIT_OK && a->expires)
		json_object_set_new(body, "expires_at", json_string(expires));
	if (code == EXIT_OK && a->admin)
		json_object_set_new(body, "admin", a->admin);
	if (code == EXIT_OK && (!before || asprintf(&path, "%s/keys", before) < 0))
		code = complain(EXIT_FAILED, "Out of memory.");
	if (code == EXIT_OK)
		code = ask(c, "POST", path, body, &key);
	if (code == EXIT_OK && c->json)
		print_json(key);
	else if (code == EXIT_OK)
		show_key(key);
	json_decref(body);
	json_decref(key);
	free(before);
	free(path);
	return code;
}

static int key_rm(struct command *c, char **ids)
{
	json_t *gone = json_array();
	int code = EXIT_OK;

	for (; *ids && code != EXIT_UNREACHABLE; ids++) {
		char *path = http_path("/v1/keys/", *ids);
		struct reply reply;
		int one = EXIT_OK;

		if (!path)
			one = complain(EXIT_FAILED, "Out of memory.");
		else if (http_json(&c->http, "DELETE", path, NULL, NULL, &reply) < 0)
			one = complain_reply(c, EXIT_FAILED, &reply);
		else if (c->json)
			json_array_append_new(gone, json_string(*ids));
		else
			printf("%s\n", *ids);
		if (code == EXIT_OK || one == EXIT_UNREACHABLE)
			code = one;
		free(path);
	}
	if (c->json) {
		json_t *answer = json_pack("{s:O}", "removed", gone);

		print_json(answer);
		json_decref(answer);
	}
	json_decref(gone);
	return code;
}

static int list(struct command *c, const char *path, const char *name, void (*show)(json_t *rows))
{
	json_t *rows = json_array();
	int code = fetch_pages(c, path, name, 0, rows);

	if (code == EXIT_OK && c->json)
		print_json(rows);
	else if (code == EXIT_OK)
		show(rows);
	json_decref(rows);
	return code;
}

static void show_owners(json_t *rows)
{
	struct table t;
	json_t *row;
	size_t i;

	table_init(&t, 4);
	table_row(&t, "ID", "NAME", "QUOTA", "CREATED");
	json_array_foreach(rows, i, row)
	{
		json_t *quota = json_object_get(json_object_get(row, "quota"), "sandboxes");
		char created[20], text[32];

		snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(quota));
		table_row(&t, text_of(row, "id"), text_of(row, "name"), json_is_integer(quota) ? text : NULL,
			  time_text(text_of(row, "created_at"), created));
	}
	table_print(&t);
	table_free(&t);
}

static void show_keys(json_t *rows)
{
	struct table t;
	json_t *row;
	size_t i;

	table_init(&t, 5);
	table_row(&t, "ID", "NAME", "ADMIN", "CREATED", "ENDS");
	json_array_foreach(rows, i, row)
	{
		const char *revoked = text_of(row, "revoked_at"), *expires = text_of(row, "expires_at");
		char created[20], end[20];

		table_row(&t, text_of(row, "id"), text_of(row, "name"),
			  json_is_true(json_object_get(row, "admin")) ? "yes" : "no",
			  time_text(text_of(row, "created_at"), created),
			  time_text(revoked ? revoked : expires, end));
	}
	table_print(&t);
	table_free(&t);
}

static int keys_of(struct command *c, const char *owner)
{
	char *before = http_path("/v1/owners/", owner), *path = NULL;
	int code;

	if (!before || asprintf(&path, "%s/keys?limit=1000", before) < 0)
		code = complain(EXIT_FAILED, "Out of memory.");
	else
		code = list(c, path, "keys", show_keys);
	free(before);
	free(path);
	return code;
}

static int run_owner(struct command *c, int argc, char **argv)
{
	struct access a = { .command = c, .quota = -1, .days = -1, .mb = -1 };
	const char *noun = argc > 1 ? argv[1] : "";
	bool create = strcmp(noun, "create") == 0, set = strcmp(noun, "set") == 0;
	int code;

	if (!create && !set && strcmp(noun, "ls") != 0)
		return misused(c, "what? create, set or ls");
	code = take_options(&a, argc - 1, argv + 1, create || set ? "qdm" : "");
	if (code != EXIT_OK)
		return code;
	if (argc - 1 - optind != (create || set ? 1 : 0))
		return misused(c, create ? "what is the owner's name?"
				  : set  ? "which owner? its ID, as carrel owner ls shows it"
					 : "ls takes no names");
	if (set)
		return owner_set(&a, argv[1 + optind]);
	return create ? owner_create(&a, argv[1 + optind])
		      : list(c, "/v1/owners?limit=1000", "owners", show_owners);
}

static int run_key(struct command *c, int argc, char **argv)
{
	const char *noun = argc > 1 ? argv[1] : "";
	struct access a = { .command = c, .quota = -1, .days = -1, .mb = -1 };
	bool create = strcmp(noun, "create") == 0, rm = strcmp(noun, "rm") == 0;
	int code;

	if (!create && !rm && strcmp(noun, "ls") != 0)
		return misused(c, "what? create, ls or rm");
	code = take_options(&a, argc - 1, argv + 1, create ? "neaA" : "");
	if (code != EXIT_OK)
		return code;
	argv += 1 + optind;
	argc -= 1 + optind;
	if (!rm && argc != 1)
		return misused(c, "of which owner? its ID, as carrel owner ls shows it");
	if (argc == 0)
		return misused(c, "which key? its ID, not the key itself");
	return rm ? key_rm(c, argv) : create ? key_create(&a, argv[0]) : keys_of(c, argv[0]);
}

const struct verb verb_owner = {
	.name = "owner",
	.usage = "create NAME [OPTIONS] [--json] | set ID [OPTIONS] [--json] | ls [--json]",
	.help = "admit another owner, who sees only sandboxes of its own, or list all\n\n"
		"create prints the owner's id, for carrel key create. It needs an admin's key, as the first\n"
		"owner's ($STATE/token) is.\n"
		"set gives an owner these bounds in place of those it had; what is not given is as for everybody.\n"
		"  --quota N          how many sandboxes may run at once\n"
		"  --history-days N   how long its executions, outputs and audit are kept\n"
		"  --history-mb N     how much of them in all; the oldest go first",
	.nouns = "create set ls",
	.run = run_owner,
};

const struct verb verb_key = {
	.name = "key",
	.usage = "create OWNER [--name N] [--expires T] [--admin | --no-admin] [--json] | ls OWNER [--json] "
		 "| rm KEYID… [--json]",
	.help = "make a key for an owner, list them, or end one at once\n\n"
		"create prints the key, this once, on stdout and its id on stderr. Both need an admin's "
		"key.\n"
		"  --name N      what it is for\n"
		"  --expires T   a span (90m, 12h, 30d) or a time (2030-01-31T12:00:00Z); else never\n"
		"  --admin       it may also make and list owners and keys, and read /metrics\n"
		"  --no-admin    it may not; without either, keys of the first owner may",
	.nouns = "create ls rm",
	.run = run_key,
};
