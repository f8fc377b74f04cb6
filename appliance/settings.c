#include "settings.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SHORT_THREADS_MAX = 256,
	STREAM_THREADS_MAX = 4096,
	MEMORY_MB_MAX = 16 * 1024 * 1024,
	SANDBOXES_MAX = 100000,
	CPU_SHARE_MAX = 1000,
	POOL_MAX = 512,
	PAUSED_KEEP_S_MAX = 10 * 366 * 24 * 3600,
	LINE_MAX_BYTES = 1024, /* of the configuration file */
};

/* One row a setting: "--name VALUE" on the command line, "name = value" in the file. */
struct option {
	const char *name;
	size_t offset;
	size_t size; /* of a text; 0: a number */
	unsigned min, max;
};

#define TEXT(name, member)                                                                               \
	{                                                                                                \
		name, offsetof(struct settings, member), sizeof(((struct settings *)NULL)->member), 0, 0 \
	}
#define NUMBER(name, member, min, max)                               \
	{                                                            \
		name, offsetof(struct settings, member), 0, min, max \
	}
static const struct option options[] = {
	TEXT("state", state),
	TEXT("run", run),
	TEXT("connections", connections),
	TEXT("cache", cache),
	TEXT("image", image),
	TEXT("builds", builds),
	TEXT("engine", engine),
	TEXT("allow-jail", allow_jail),
	TEXT("monitor", monitor),
	TEXT("template", template_name),
	TEXT("audit-syslog", audit_syslog),
	NUMBER("short-threads", short_threads, 1, SHORT_THREADS_MAX),
	NUMBER("stream-threads", stream_threads, 1, STREAM_THREADS_MAX),
	NUMBER("memory-mb", memory_mb, 0, MEMORY_MB_MAX),
	NUMBER("sandboxes-per-owner", sandboxes_per_owner, 1, SANDBOXES_MAX),
	NUMBER("cpu-share", cpu_share, 1, CPU_SHARE_MAX),
	NUMBER("pool", pool, 0, POOL_MAX),
	NUMBER("pool-max", pool_max, 0, POOL_MAX),
	NUMBER("history-days", history_days, 1, HISTORY_DAYS_MAX),
	NUMBER("history-mb", history_mb, 1, HISTORY_MB_MAX),
	NUMBER("history-sweep-s", history_sweep_s, 1, 24 * 3600),
	NUMBER("paused-keep-s", paused_keep_s, 1, PAUSED_KEEP_S_MAX),
};

static const struct option *option_find(const char *name)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (!strcmp(options[i].name, name))
			return &options[i];
	return NULL;
}

static int option_text(const struct option *o, char *to, const char *value, struct fault *f)
{
	if (!*value || strlen(value) >= o->size)
		return fault_field(f, "bad_setting", o->name, "%s must have from 1 to %zu bytes.", o->name,
				   o->size - 1);
	memcpy(to, value, strlen(value) + 1);
	return 0;
}

static int option_number(const struct option *o, unsigned *to, const char *value, struct fault *f)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || n < o->min || n > o->max)
		return fault_field(f, "bad_setting", o->name,
				   "%s must be a whole number from %u to %u, not \"%s\".", o->name, o->min,
				   o->max, value);
	*to = (unsigned)n;
	return 0;
}

static int option_set(struct settings *s, const char *name, const char *value, struct fault *f)
{
	const struct option *o = option_find(name);

	if (!o)
		return fault_field(f, "bad_setting", name, "There is no setting \"%s\".", name);
	return o->size ? option_text(o, (char *)s + o->offset, value, f)
		       : option_number(o, (void *)((char *)s + o->offset), value, f);
}

/* "name = value"; blank lines and those that begin with # are skipped. */
static int line_read(struct settings *s, char *line, struct fault *f)
{
	char *name = line + strspn(line, " \t"), *value = strchr(name, '=');
	size_t len = strlen(name);

	while (len > 0 && strchr(" \t\r\n", name[len - 1]))
		name[--len] = '\0';
	if (!*name || *name == '#')
		return 0;
	if (!value)
		return fault_set(f, EINVAL, 400, "bad_setting", "\"%s\" is not of the form name = value.",
				 name);
	*value++ = '\0';
	name[strcspn(name, " \t")] = '\0';
	return option_set(s, name, value + strspn(value, " \t"), f);
}

static int file_read(struct settings *s, const char *path, struct fault *f)
{
	FILE *file = fopen(path, "re");
	char line[LINE_MAX_BYTES], where[300];
	int err = 0;

	if (!file)
		return fault_set(f, errno, 400, "bad_setting", "The configuration %s cannot be read: %s.",
				 path, strerror(errno));
	for (unsigned n = 1; !err && fgets(line, sizeof(line), file); n++) {
		err = line_read(s, line, f);
		snprintf(where, sizeof(where), "%.256s line %u", path, n);
		if (err)
			fault_wrap(f, err, where);
	}
	fclose(file);
	return err;
}

static int arguments_read(struct settings *s, int argc, char **argv, bool files, struct fault *f)
{
	for (int i = 1; i < argc; i += 2) {
		bool file = !strcmp(argv[i], "--config");
		int err = 0;

		if (strncmp(argv[i], "--", 2) != 0)
			return fault_set(f, EINVAL, 400, "bad_setting",
					 "\"%s\" is no option; options begin with --.", argv[i]);
		if (i + 1 == argc)
			return fault_set(f, EINVAL, 400, "bad_setting", "%s needs a value.", argv[i]);
		if (file && files)
			err = file_read(s, argv[i + 1], f);
		else if (!file && !files)
			err = option_set(s, argv[i] + 2, argv[i + 1], f);
		if (err)
			return err;
	}
	return 0;
}

int settings_parse(struct settings *ret, int argc, char **argv, struct fault *f)
{
	struct settings s = {
		.state = "./state",
		.cache = "/var/cache/carrel",
		.engine = "auto",
		.allow_jail = "no",
		.monitor = "auto",
		.template_name = "python",
		.audit_syslog = "no",
		.short_threads = 8,
		.stream_threads = 64,
		.sandboxes_per_owner = 20,
		.cpu_share = 16,
		.pool = SETTINGS_BY_HOST,
		.history_days = 30,
		.history_mb = 10 * 1024,
		.history_sweep_s = 60,
		.paused_keep_s = 30 * 24 * 3600,
	};
	/* The command line wins over the file, wherever --config stands. */
	int err = arguments_read(&s, argc, argv, true, f);

	if (!err)
		err = arguments_read(&s, argc, argv, false, f);
	if (err)
		return err;
	if (strcmp(s.allow_jail, "no") != 0 && strcmp(s.allow_jail, "yes") != 0)
		return fault_field(f, "bad_setting", "allow-jail", "allow-jail is yes or no, not \"%s\".", s.allow_jail);
	if (s.audit_syslog[0] != '/' && strcmp(s.audit_syslog, "no") != 0 && strcmp(s.audit_syslog, "yes") != 0)
		return fault_field(f, "bad_setting", "audit-syslog",
				   "audit-syslog is yes, no, or the path of a syslog socket, not \"%s\".",
				   s.audit_syslog);
	if (!*s.run && snprintf(s.run, sizeof(s.run), "%s/run", s.state) >= (int)sizeof(s.run))
		return fault_field(f, "bad_setting", "state", "state is too long.");
	if (!*s.connections && snprintf(s.connections, sizeof(s.connections), "%s/connections", s.state) >=
				       (int)sizeof(s.connections))
		return fault_field(f, "bad_setting", "state", "state is too long.");
	if (!*s.image)
		return fault_field(f, "bad_setting", "image",
				   "image is missing: give the directory of the built image.");
	*ret = s;
	return 0;
}
