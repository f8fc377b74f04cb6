/* carrel doctor: what of this host an appliance needs is there, and what follows. */
#include "doctor.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_FILE_MAX = 1024 * 1024 }; /* mountinfo of a host with very many mounts */

static const struct check checks[] = {
	{ "processor", look_processor },
	{ "kvm", look_kvm },
	{ "kernel", look_kernel },
	{ "cgroups", look_cgroups },
	{ "namespaces", look_namespaces },
	{ "io_uring", look_io_uring },
	{ "root", look_root },
	{ "memory", look_memory },
	{ "qemu", look_qemu },
	{ "nginx", look_nginx },
	{ "state", look_state },
	{ "cache", look_cache },
	{ "image", look_image },
	{ "appliance", look_appliance },
};
enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

static const char *const levels[] = { "ok", "warning", "missing" };

void finding_set(struct finding *f, enum level level, const char *fmt, ...)
{
	va_list ap;

	f->level = level;
	va_start(ap, fmt);
	vsnprintf(f->found, sizeof(f->found), fmt, ap);
	va_end(ap);
}

void finding_follows(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->follows, sizeof(f->follows), fmt, ap);
	va_end(ap);
}

const char *setting(const char *name, const char *otherwise)
{
	const char *value = getenv(name);
	char conf[1024];

	/* Where the file says something, what is started from here is to know it, too. */
	if ((!value || !*value) && where_conf(name, conf, sizeof(conf)) && setenv(name, conf, 1) == 0)
		value = getenv(name);
	return value && *value ? value : otherwise;
}

char *text_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = file ? malloc(TEXT_FILE_MAX + 1) : NULL, *fitting;
	size_t len;

	if (text) {
		len = fread(text, 1, TEXT_FILE_MAX, file);
		text[len] = '\0';
		fitting = realloc(text, len + 1);
		text = fitting ? fitting : text;
	}
	if (file)
		fclose(file);
	return text;
}

static void print_readable(const struct finding *findings, unsigned missing, unsigned warnings)
{
	for (int i = 0; i < CHECKS; i++)
		printf("%-8s %-11s %s\n%s%s%s", levels[findings[i].level], checks[i].name, findings[i].found,
		       findings[i].follows[0] ? "                     " : "", findings[i].follows,
		       findings[i].follows[0] ? "\n" : "");
	if (missing)
		printf("\n%u missing, %u to know about: an appliance does not run here like this.\n", missing,
		       warnings);
	else
		printf("\nEverything needed is there%s.\n",
		       warnings ? "; what is marked warning costs speed, freshness or room" : "");
}

static json_t *to_json(const struct finding *findings, bool ok)
{
	json_t *rows = json_array();

	for (int i = 0; i < CHECKS; i++)
		json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s}", "name", checks[i].name, "level",
						      levels[findings[i].level], "found", findings[i].found,
						      "follows", findings[i].follows));
	return json_pack("{s:b, s:o}", "ok", ok, "checks", rows);
}

static int take_options(struct command *c, int argc, char **argv, bool *ret_config)
{
	static const struct option options[] = { { "config", no_argument, NULL, 'c' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'c')
			*ret_config = true;
		else if (opt == 'j')
			c->json = true;
		else
			return wrong_option(c, argv);
	}
	return EXIT_OK;
}

static int run(struct command *c, int argc, char **argv)
{
	static struct finding findings[CHECKS];
	unsigned count[3] = { 0 };
	bool config = false;
	int code = take_options(c, argc, argv, &config);

	if (code != EXIT_OK)
		return code;
	if (argc - optind > (config ? 1 : 0))
		return misused(c, "\"%s\" is one word too many", argv[argc - 1]);
	if (config)
		return config_check(c, argv[optind]);
	for (int i = 0; i < CHECKS; i++) {
		checks[i].look(c, &findings[i]);
		count[findings[i].level]++;
	}
	if (c->json) {
		json_t *answer = to_json(findings, count[LEVEL_MISSING] == 0);

		print_json(answer);
		json_decref(answer);
	} else {
		print_readable(findings, count[LEVEL_MISSING], count[LEVEL_WARNING]);
	}
	return count[LEVEL_MISSING] ? EXIT_FAILED : EXIT_OK;
}

const struct verb verb_doctor = {
	.name = "doctor",
	.usage = "[--json] | --config [FILE] [--json]",
	.help = "say what this host has and lacks for an appliance\n\n"
		"Processor, /dev/kvm, kernel, control groups, namespaces, io_uring, root, memory, QEMU,\n"
		"nginx, room for STATE and CARREL_CACHE, the image's age, and the appliance if one runs;\n"
		"for each, what follows from it. Run it where the appliance runs, with the same settings.\n"
		"  --config   say what is wrong in the configuration file instead, a sentence each: FILE, or\n"
		"             CARREL_CONF, or /etc/carrel/carrel.conf; conf/carrel.conf shows every setting\n"
		"The exit code is 0 when everything needed is there, 1 when not; warnings do not count.",
	.local = true,
	.run = run,
};
