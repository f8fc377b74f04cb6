/* carrel doctor --config: what is wrong in the configuration file, a sentence each. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

enum {
	LINE_ROOM = 1024, /* as conf/run and carreld take them */
	VALUE_MAX = 200,  /* what a path or address may have */
};

enum kind {
	NUMBER, /* min to max */
	WORD,   /* one of choices, by spaces */
	TEXT,
	FOLDER, /* its parent at least is there */
	READ,   /* a file that can be read */
	SYSLOG, /* yes, no, or a socket's path */
};

/* conf/carrel.conf says what each does. */
static const struct key {
	const char *name;
	enum kind kind;
	long long min, max;
	const char *choices;
} keys[] = {
	{ "PORT", NUMBER, 1, 65535 },
	{ "BIND", TEXT },
	{ "TLS_CERT", READ },
	{ "TLS_KEY", READ },
	{ "PLAINTEXT", WORD, .choices = "yes no" },
	{ "PUBLIC_URL", TEXT },
	{ "STATE", FOLDER },
	{ "CARREL_CACHE", FOLDER },
	{ "MIRROR", TEXT },
	{ "ENGINE", WORD, .choices = "auto kvm tcg jail" },
	{ "ALLOW_JAIL", WORD, .choices = "yes no" },
	{ "JAIL_READ_ONLY", WORD, .choices = "yes no" },
	{ "MONITOR", WORD, .choices = "auto qemu carrel-vmm" },
	{ "TEMPLATE", TEXT },
	{ "WHEELS", FOLDER },
	{ "MEMORY_MB", NUMBER, 0, 16 * 1024 * 1024 },
	{ "WRITE_MB_S", NUMBER, 0, 1024 * 1024 },
	{ "SANDBOXES_PER_OWNER", NUMBER, 1, 100000 },
	{ "POOL", NUMBER, 0, 512 },
	{ "POOL_MAX", NUMBER, 0, 512 },
	{ "PAUSED_KEEP_S", NUMBER, 1, 10LL * 366 * 24 * 3600 },
	{ "HISTORY_DAYS", NUMBER, 1, 36500 },
	{ "HISTORY_MB", NUMBER, 1, 1024 * 1024 * 1024 },
	{ "AUDIT_SYSLOG", SYSLOG },
	{ "LOG_MB", NUMBER, 1, 1024 * 1024 },
	{ "LOG_KEEP", NUMBER, 0, 1000 },
	{ "CARRELD_UID", NUMBER, 1, 0x7fffffff },
	{ "NGINX_UID", NUMBER, 1, 0x7fffffff },
	{ "SANDBOX_UID_BASE", NUMBER, 1, 0x7fffffff },
	{ "URL", TEXT },
	{ "TOKEN", TEXT },
	{ "CACERT", READ },
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

struct config {
	const char *path;
	unsigned line, settings;
	char values[KEYS][VALUE_MAX + 1];
	json_t *faults;
};

static void fault_add(struct config *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fault_add(struct config *c, const char *fmt, ...)
{
	char sentence[600], *whole = NULL;
	json_t *text;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	if ((c->line ? asprintf(&whole, "%s line %u: %s", c->path, c->line, sentence)
		     : asprintf(&whole, "%s: %s", c->path, sentence)) < 0)
		return;
	text = json_string(whole);
	json_array_append_new(c->faults, text ? text : json_pack("s++", c->path, ": ", "A line is not UTF-8."));
	free(whole);
}

static int key_find(const char *name)
{
	for (int i = 0; i < KEYS; i++)
		if (strcmp(keys[i].name, name) == 0)
			return i;
	return -1;
}

static bool word_of(const char *choices, const char *value)
{
	size_t len = strlen(value);

	for (const char *at = choices; *at; at += strcspn(at, " "), at += strspn(at, " "))
		if (strcspn(at, " ") == len && strncmp(at, value, len) == 0)
			return true;
	return false;
}

static bool parent_there(const char *path)
{
	char parent[VALUE_MAX + 1], *slash;

	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (!slash)
		return true;
	*slash = '\0';
	return access(path, F_OK) == 0 || access(parent[0] ? parent : "/", F_OK) == 0;
}

static void value_check(struct config *c, const struct key *k, const char *value)
{
	char *end;
	long long n = strtoll(value, &end, 10);

	switch (k->kind) {
	case NUMBER:
		if (!isdigit((unsigned char)*value) || *end || n < k->min || n > k->max)
			fault_add(c, "%s must be a whole number from %lld to %lld, not \"%s\".", k->name, k->min,
				  k->max, value);
		break;
	case WORD:
		if (!word_of(k->choices, value))
			fault_add(c, "%s must be one of: %s; not \"%s\".", k->name, k->choices, value);
		break;
	case READ:
		if (access(value, R_OK) < 0)
			fault_add(c, "%s names %s, which cannot be read: %s.", k->name, value, strerror(errno));
		break;
	case FOLDER:
		if (!parent_there(value))
			fault_add(c, "%s names %s, in a folder that is not there.", k->name, value);
		break;
	case SYSLOG:
		if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0 && value[0] != '/')
			fault_add(c, "%s must be yes, no, or the path of a syslog socket, not \"%s\".", k->name, value);
		break;
	case TEXT:
		if (strpbrk(value, " \t\"'"))
			fault_add(c, "%s must not have spaces or quotation marks: %s.", k->name, value);
		break;
	}
}

static char *trimmed(char *text)
{
	size_t len;

	text += strspn(text, " \t");
	for (len = strlen(text); len > 0 && strchr(" \t\r\n", text[len - 1]); len--)
		text[len - 1] = '\0';
	return text;
}

static void line_check(struct config *c, char *line)
{
	char *name = trimmed(line), *equals = strchr(name, '='), *value;
	int key;

	if (!*name || *name == '#')
		return;
	if (!equals) {
		fault_add(c, "\"%.100s\" is not of the form NAME=value.", name);
		return;
	}
	*equals = '\0';
	name = trimmed(name);
	value = trimmed(equals + 1);
	key = key_find(name);
	if (key < 0)
		fault_add(c, "There is no setting %.100s; conf/carrel.conf shows all there are.", name);
	else if (strlen(value) > VALUE_MAX)
		fault_add(c, "%s is longer than %d bytes.", name, VALUE_MAX);
	else if (c->values[key][0])
		fault_add(c, "%s is set twice.", name);
	else if (*value) {
		c->settings++;
		snprintf(c->values[key], sizeof(c->values[key]), "%s", value);
		value_check(c, &keys[key], value);
	}
}

static const char *value_of(const struct config *c, const char *name)
{
	const char *env = getenv(name);

	return env && *env ? env : c->values[key_find(name)];
}

/* What is wrong between settings, as conf/run will say it. */
static void whole_check(struct config *c)
{
	const char *bind = value_of(c, "BIND"), *cert = value_of(c, "TLS_CERT"), *key = value_of(c, "TLS_KEY");
	bool local = !*bind || strncmp(bind, "127.", 4) == 0 || strcmp(bind, "::1") == 0 || strcmp(bind, "localhost") == 0;

	c->line = 0;
	if (!*cert != !*key)
		fault_add(c, "TLS_CERT and TLS_KEY go together: set both or neither.");
	if (!local && !*cert && strcmp(value_of(c, "PLAINTEXT"), "yes") != 0)
		fault_add(c, "BIND=%s is an address that others reach: set TLS_CERT and TLS_KEY, or PLAINTEXT=yes "
			     "where something in front of it encrypts.",
			  bind);
}

static void file_check(struct config *c)
{
	FILE *file = fopen(c->path, "re");
	char line[LINE_ROOM];

	if (!file) {
		fault_add(c, "The configuration file cannot be read: %s.", strerror(errno));
		return;
	}
	for (c->line = 1; fgets(line, sizeof(line), file); c->line++)
		line_check(c, line);
	fclose(file);
	whole_check(c);
}

int config_check(struct command *c, const char *path)
{
	const char *conf = getenv("CARREL_CONF");
	static struct config config;
	json_t *fault;
	size_t i;
	bool ok;

	config = (struct config){ .path = path ? path : conf && *conf ? conf : CONF_FILE, .faults = json_array() };
	file_check(&config);
	ok = json_array_size(config.faults) == 0;
	if (c->json) {
		json_t *answer = json_pack("{s:b, s:s, s:i, s:O}", "ok", ok, "file", config.path, "settings",
					   (int)config.settings, "faults", config.faults);

		print_json(answer);
		json_decref(answer);
	} else if (ok) {
		printf("%s: %u settings, nothing wrong.\n", config.path, config.settings);
	} else {
		json_array_foreach(config.faults, i, fault) printf("%s\n", json_string_value(fault));
	}
	json_decref(config.faults);
	return ok ? EXIT_OK : EXIT_FAILED;
}
