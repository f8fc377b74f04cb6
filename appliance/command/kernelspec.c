/* carrel kernelspec: tells Jupyter of `carrel kernel`. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "write_file.h"

static const struct spec {
	const char *folder, *language, *shown;
} specs[] = {
	{ "carrel-python", "python", "Python (Carrel)" },
	{ "carrel-bash", "bash", "Bash (Carrel)" },
};
enum { SPECS = sizeof(specs) / sizeof(specs[0]) };

/* A desk with walls on three sides. */
static const char logo[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 64 64\"><path d=\"M6 "
			   "12h10v30h32V12h10v44h-8V50H14v6H6z\" "
			   "fill=\"#7a5230\"/><path d=\"M20 30h24v8H20z\" fill=\"#e8c78f\"/></svg>\n";

struct place {
	const char *prefix;
	bool user, sys_prefix;
};

/* Where Jupyter looks: PREFIX/share/jupyter/kernels. */
static int place_find(const struct command *c, const struct place *p, char ret[PATH_MAX])
{
	const char *home = getenv("HOME"), *data = getenv("JUPYTER_DATA_DIR"), *xdg = getenv("XDG_DATA_HOME");
	const char *prefix = p->prefix;
	int n;

	if (p->sys_prefix) {
		prefix = getenv("VIRTUAL_ENV");
		if (!prefix || !*prefix)
			prefix = getenv("CONDA_PREFIX");
		if (!prefix || !*prefix)
			return misused(
				c, "--sys-prefix needs an active environment (VIRTUAL_ENV or CONDA_PREFIX); "
				   "use --prefix DIR or --user");
	}
	if (prefix)
		n = snprintf(ret, PATH_MAX, "%s/share/jupyter/kernels", prefix);
	else if (data && *data)
		n = snprintf(ret, PATH_MAX, "%s/kernels", data);
	else if (xdg && *xdg)
		n = snprintf(ret, PATH_MAX, "%s/jupyter/kernels", xdg);
	else if (home && *home)
		n = snprintf(ret, PATH_MAX, "%s/.local/share/jupyter/kernels", home);
	else
		return complain(EXIT_FAILED, "HOME is not set; use --prefix DIR.");
	return n < PATH_MAX ? EXIT_OK : misused(c, "the path is too long");
}

static int install_one(const struct spec *s, const char *kernels, const char *program)
{
	json_t *spec =
		json_pack("{s:[s,s,s,s,s,s,s,s],s:s,s:s,s:s,s:{}}", "argv", program, "kernel", "--language",
			  s->language, "--files", ".", "-f", "{connection_file}", "display_name", s->shown,
			  "language", s->language, "interrupt_mode", "message", "metadata");
	char *text = spec ? json_dumps(spec, JSON_INDENT(1)) : NULL;
	char folder[PATH_MAX + 32];
	int code;

	snprintf(folder, sizeof(folder), "%s/%s", kernels, s->folder);
	code = make_folders(folder);
	if (!code && !text)
		code = complain(EXIT_FAILED, "Out of memory.");
	if (!code)
		code = write_file(folder, "logo-svg.svg", 0644, logo);
	if (!code)
		code = write_file(folder, "kernel.json", 0644, text);
	if (!code)
		printf("%s: %s\n", s->shown, folder);
	free(text);
	json_decref(spec);
	return code;
}

static int remove_one(const struct spec *s, const char *kernels)
{
	static const char *const files[] = { "kernel.json", "logo-svg.svg" };
	char path[PATH_MAX + 64];
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s/%s", kernels, s->folder, files[i]);
		if (unlink(path) < 0 && errno != ENOENT)
			return complain(EXIT_FAILED, "%s cannot be removed: %s.", path, strerror(errno));
	}
	snprintf(path, sizeof(path), "%s/%s", kernels, s->folder);
	if (rmdir(path) < 0 && errno != ENOENT)
		return complain(EXIT_FAILED, "%s cannot be removed: %s.", path, strerror(errno));
	return EXIT_OK;
}

static int place_options(struct command *c, int argc, char **argv, struct place *ret)
{
	static const struct option options[] = { { "prefix", required_argument, NULL, 'p' },
						 { "user", no_argument, NULL, 'u' },
						 { "sys-prefix", no_argument, NULL, 's' },
						 { 0 } };
	int opt, n = 0;

	optind = 0;
	while ((opt = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		n++;
		if (opt == 'p')
			ret->prefix = optarg;
		else if (opt == 'u')
			ret->user = true;
		else if (opt == 's')
			ret->sys_prefix = true;
		else
			return wrong_option(c, argv);
	}
	if (optind < argc)
		return misused(c, "\"%s\" is one word too many", argv[optind]);
	return n > 1 ? misused(c, "choose one of --prefix, --user and --sys-prefix") : EXIT_OK;
}

static int run(struct command *c, int argc, char **argv)
{
	struct place place = { 0 };
	char kernels[PATH_MAX], program[PATH_MAX];
	bool install = argc > 1 && strcmp(argv[1], "install") == 0;
	ssize_t n;
	int i, code;

	if (argc < 2 || (!install && strcmp(argv[1], "remove") != 0))
		return misused(c, "install or remove?");
	code = place_options(c, argc - 1, argv + 1, &place);
	if (!code)
		code = place_find(c, &place, kernels);
	if (code)
		return code;
	n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (n < 0)
		return complain(EXIT_FAILED, "Where this program lies cannot be found out: %s.",
				strerror(errno));
	program[n] = '\0';
	for (i = 0; !code && i < SPECS; i++)
		code = install ? install_one(&specs[i], kernels, program) : remove_one(&specs[i], kernels);
	return code;
}

const struct verb verb_kernelspec = {
	.name = "kernelspec",
	.usage = "install|remove [--prefix DIR|--user|--sys-prefix]",
	.help = "tell Jupyter of Carrel's kernels\n\n"
		"  --prefix DIR        write to DIR/share/jupyter/kernels\n"
		"  --user              for this user (the default)\n"
		"  --sys-prefix        into the active Python environment\n\n"
		"Adds carrel-python, \"Python (Carrel)\", and carrel-bash, \"Bash (Carrel)\"; they run this\n"
		"program's carrel kernel with the notebook's folder as --files.",
	.nouns = "install remove",
	.local = true,
	.run = run,
};
