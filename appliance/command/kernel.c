/* carrel kernel: a Jupyter client's kernel, in a sandbox. */
#include <getopt.h>
#include <string.h>
#include <sys/stat.h>

#include "../kernel/bridge.h"
#include "command.h"

enum { IDLE_S = 30 * 60, IDLE_MIN_S = 60, IDLE_MAX_S = 86400 };

static int run(struct command *c, int argc, char **argv)
{
	static const struct option options[] = { { "connection-file", required_argument, NULL, 'f' },
						 { "language", required_argument, NULL, 'l' },
						 { "files", required_argument, NULL, 'd' },
						 { "timeout", required_argument, NULL, 't' },
						 { 0 } };
	struct bridge_options o = { .language = "python", .idle_s = IDLE_S };
	struct stat st;
	long idle = IDLE_S;
	int opt, code = EXIT_OK;

	while (!code && (opt = getopt_long(argc, argv, "+f:", options, NULL)) != -1) {
		if (opt == 'f')
			o.connection_file = optarg;
		else if (opt == 'l')
			o.language = optarg;
		else if (opt == 'd')
			o.files = strcmp(optarg, "none") == 0 ? NULL : optarg;
		else if (opt == 't')
			code = number_option(c, "--timeout", optarg, IDLE_MIN_S, IDLE_MAX_S, &idle);
		else
			return wrong_option(c, argv);
	}
	if (code)
		return code;
	if (optind < argc)
		return misused(c, "\"%s\" is one word too many", argv[optind]);
	if (!o.connection_file)
		return misused(c, "-f CONNECTION_FILE is missing");
	if (o.files && (stat(o.files, &st) < 0 || !S_ISDIR(st.st_mode)))
		return misused(c, "--files takes a folder or none, not \"%s\"", o.files);
	o.idle_s = (unsigned)idle;
	return bridge_run(c, &o);
}

const struct verb verb_kernel = {
	.name = "kernel",
	.usage = "-f CONNECTION_FILE [--language NAME] [--files DIR|none] [--timeout S]",
	.help = "be a Jupyter client's kernel, in a sandbox\n\n"
		"  -f CONNECTION_FILE  the sockets to bind and the key, as every Jupyter client writes it\n"
		"  --language NAME     the kernel's language: python (the default), bash, ...\n"
		"  --files DIR         copy the folder's files in at the start (up to 64 MiB) and changed\n"
		"                      ones back after each cell; none (the default) copies nothing\n"
		"  --timeout S         pause the sandbox so long after the client went away (1800)\n\n"
		"Clients start it by a kernelspec: see carrel kernelspec install.",
	.run = run,
};
