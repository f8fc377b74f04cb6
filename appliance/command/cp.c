/* carrel cp: one file between here and a sandbox. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote.h"
#include "signals.h"

/* "ID:PATH" in its parts: the id, allocated, or NULL for a local name. */
static char *split_remote(const char *text, const char **ret_path)
{
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");

	if (len < 2 || text[len] != ':')
		return NULL;
	*ret_path = text + len + 1;
	return strndup(text, len);
}

static int copy(struct command *c, const char *from, const char *to, int64_t *ret_size)
{
	const char *from_path = NULL, *to_path = NULL;
	char *from_id = split_remote(from, &from_path), *to_id = split_remote(to, &to_path);
	int code;

	if (from_id && to_id)
		code = misused(c, "one side must be here: copy through a local file");
	else if (!from_id && !to_id)
		code = misused(c, "one side must be in a sandbox: ID:PATH");
	else if (to_id)
		code = remote_put(c, to_id, from, to_path, ret_size);
	else if (!*from_path || from_path[strlen(from_path) - 1] == '/')
		code = misused(c, "which file of %s?", from_id);
	else
		code = remote_get(c, from_id, from_path, to, ret_size);
	free(from_id);
	free(to_id);
	return code;
}

static int run(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	int64_t size = -1;
	json_t *answer;
	int opt, code;

	while ((opt = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (opt != 'j')
			return wrong_option(c, argv);
		c->json = true;
	}
	if (argc - optind != 2)
		return misused(c, "it takes a source and a destination");
	if (signals_init() < 0)
		return complain(EXIT_FAILED, "Signals cannot be caught.");
	code = copy(c, argv[optind], argv[optind + 1], &size);
	if (code != EXIT_OK || !c->json || strcmp(argv[optind + 1], "-") == 0)
		return code;
	answer = json_pack("{s:s, s:s}", "from", argv[optind], "to", argv[optind + 1]);
	if (size >= 0)
		json_object_set_new(answer, "size", json_integer(size));
	print_json(answer);
	json_decref(answer);
	return EXIT_OK;
}

const struct verb verb_cp = {
	.name = "cp",
	.usage = "[--json] SOURCE DESTINATION",
	.help = "copy a file into or out of a sandbox\n\n"
		"One side is ID:PATH. Paths there are absolute or begin at /home/user; a directory, or a "
		"PATH that\n"
		"ends in /, takes the file's own name. - is stdin or stdout. A local name with a colon: "
		"./a:b.\n\n"
		"  carrel cp data.csv ID:          carrel cp ID:plot.png .          carrel cp ID:log.txt - | "
		"less",
	.run = run,
};
