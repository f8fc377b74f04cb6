/* carrel connection: a connection file for Jupyter clients on the appliance's own host. */
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "write_file.h"

/* Where `jupyter console --existing` looks for a name. */
static bool runtime_folder(char ret[PATH_MAX])
{
	const char *runtime = getenv("JUPYTER_RUNTIME_DIR"), *data = getenv("JUPYTER_DATA_DIR");
	const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	int n = -1;

	if (runtime && *runtime)
		n = snprintf(ret, PATH_MAX, "%s", runtime);
	else if (data && *data)
		n = snprintf(ret, PATH_MAX, "%s/runtime", data);
	else if (xdg && *xdg)
		n = snprintf(ret, PATH_MAX, "%s/jupyter/runtime", xdg);
	else if (home && *home)
		n = snprintf(ret, PATH_MAX, "%s/.local/share/jupyter/runtime", home);
	return n >= 0 && n < PATH_MAX;
}

/* The id of a sandbox's first kernel. */
static int kernel_of_sandbox(struct command *c, const char *sandbox_id, char ret[64])
{
	char *sandbox = http_path("/v1/sandboxes/", sandbox_id), *path = NULL;
	json_t *list = NULL;
	struct reply reply;
	const char *id;
	int code = EXIT_OK;

	if (!sandbox || asprintf(&path, "%s/kernels?limit=1", sandbox) < 0)
		code = complain(EXIT_FAILED, "Out of memory.");
	else if (http_json(&c->http, "GET", path, NULL, &list, &reply) < 0)
		code = complain_reply(c, EXIT_FAILED, &reply);
	id = text_of(json_array_get(json_object_get(list, "kernels"), 0), "id");
	if (!code && !id)
		code = complain(EXIT_FAILED, "The sandbox %s has no kernel.", sandbox_id);
	if (!code)
		snprintf(ret, 64, "%s", id);
	json_decref(list);
	free(sandbox);
	free(path);
	return code;
}

static int fetch(struct command *c, const char *kernel_id, bool tcp, json_t **ret)
{
	char *kernel = http_path("/v1/kernels/", kernel_id), *path = NULL;
	struct reply reply;
	int code = EXIT_OK;

	if (!kernel || asprintf(&path, "%s/connection?transport=%s", kernel, tcp ? "tcp" : "ipc") < 0)
		code = complain(EXIT_FAILED, "Out of memory.");
	else if (http_json(&c->http, "GET", path, NULL, ret, &reply) < 0)
		code = complain_reply(c, EXIT_FAILED, &reply);
	free(kernel);
	free(path);
	return code;
}

/* file NULL: where Jupyter looks. The key lets whoever reads it run code: 0600. */
static int keep(const struct command *c, const char *kernel_id, const char *file, json_t *connection)
{
	char folder[PATH_MAX], copy[PATH_MAX], name[NAME_MAX + 1];
	char *text = json_dumps(connection, JSON_INDENT(1));
	int code = EXIT_OK;

	if (!file && !runtime_folder(folder))
		code = complain(EXIT_FAILED, "HOME is not set; use -f FILE.");
	else if (file && strlen(file) >= sizeof(copy))
		code = misused(c, "the path is too long");
	else if (!text)
		code = complain(EXIT_FAILED, "Out of memory.");
	if (!code && file) {
		snprintf(copy, sizeof(copy), "%s", file);
		snprintf(name, sizeof(name), "%s", basename(copy));
		snprintf(copy, sizeof(copy), "%s", file);
		snprintf(folder, sizeof(folder), "%s", dirname(copy));
	} else if (!code) {
		snprintf(name, sizeof(name), "kernel-%s.json", kernel_id);
		code = make_folders(folder);
	}
	if (!code)
		code = write_file(folder, name, 0600, text);
	if (!code)
		printf("%s/%s\n", folder, name);
	free(text);
	return code;
}

static int run(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { { "file", required_argument, NULL, 'f' },
						 { "tcp", no_argument, NULL, 't' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	const char *file = NULL;
	json_t *connection = NULL;
	char kernel_id[64];
	bool tcp = false;
	int opt, code;

	while ((opt = getopt_long(argc, argv, "f:", options, NULL)) != -1) {
		if (opt == 'f')
			file = optarg;
		else if (opt == 't')
			tcp = true;
		else if (opt == 'j')
			c->json = true;
		else
			return wrong_option(c, argv);
	}
	if (argc - optind != 1)
		return misused(c, "of which kernel? it takes one ID, of a kernel or a sandbox");
	snprintf(kernel_id, sizeof(kernel_id), "%s", argv[optind]);
	code = strncmp(argv[optind], "sbx-", 4) == 0 ? kernel_of_sandbox(c, argv[optind], kernel_id) : EXIT_OK;
	if (!code)
		code = fetch(c, kernel_id, tcp, &connection);
	if (!code && c->json)
		print_json(connection);
	else if (!code)
		code = keep(c, kernel_id, file, connection);
	json_decref(connection);
	return code;
}

const struct verb verb_connection = {
	.name = "connection",
	.usage = "[-f FILE] [--tcp] [--json] KERNEL|SANDBOX",
	.help = "write a connection file for Jupyter clients on this host\n\n"
		"  -f FILE  write it there (else where jupyter console --existing looks)\n"
		"  --tcp    ports of the loopback; the default is sockets that only root and the group of\n"
		"           who started Carrel can open\n"
		"  --json   print it, and write no file\n\n"
		"The file's path is printed: jupyter console --existing PATH. It holds until the kernel ends\n"
		"or Carrel is restarted; clients elsewhere use carrel kernel.",
	.run = run,
};
