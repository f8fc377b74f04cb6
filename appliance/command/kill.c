/* carrel kill: ends sandboxes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

static int kill_one(struct command *c, const char *id)
{
	char *path = http_path("/v1/sandboxes/", id);
	struct reply reply;
	int code = EXIT_OK;

	if (!path)
		return complain(EXIT_FAILED, "Out of memory.");
	if (http_json(&c->http, "DELETE", path, NULL, NULL, &reply) < 0)
		code = complain_reply(c, EXIT_FAILED, &reply);
	else if (!c->json)
		printf("%s\n", id);
	free(path);
	return code;
}

static int run(struct command *c, int argc, char **argv)
{
	char **words = words_only(c, argc, argv);
	int code = EXIT_OK;
	json_t *killed;

	if (!words)
		return EXIT_USAGE;
	if (!*words)
		return misused(c, "which sandbox?");
	killed = json_array();
	for (; *words; words++) {
		int one = kill_one(c, *words);

		if (one == EXIT_OK)
			json_array_append_new(killed, json_string(*words));
		else if (code == EXIT_OK)
			code = one;
		if (one == EXIT_UNREACHABLE)
			break;
	}
	if (c->json) {
		json_t *answer = json_pack("{s:O}", "killed", killed);

		print_json(answer);
		json_decref(answer);
	}
	json_decref(killed);
	return code;
}

const struct verb verb_kill = {
	.name = "kill",
	.usage = "[--json] ID…",
	.help = "end sandboxes, with everything in them\n\n"
		"Prints the id of each sandbox that is gone. One that has ended already is no error.",
	.run = run,
};
