#include "where.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

static void take_line(char *line, const char *name, char *ret, size_t size)
{
	size_t len = strlen(name);
	char *value;

	if (strncmp(line, name, len) != 0)
		return;
	value = line + len + strspn(line + len, " \t");
	if (*value != '=')
		return;
	value += 1 + strspn(value + 1, " \t\"'");
	value[strcspn(value, " \t\"'\r\n")] = '\0';
	snprintf(ret, size, "%s", value);
}

bool where_conf(const char *name, char *ret, size_t size)
{
	const char *path = getenv("CARREL_CONF");
	char line[1024];
	FILE *file = fopen(path && *path ? path : CONF_FILE, "re");

	ret[0] = '\0';
	while (file && fgets(line, sizeof(line), file))
		take_line(line, name, ret, size);
	if (file)
		fclose(file);
	return ret[0] != '\0';
}

static void from_conf(struct where *w)
{
	where_conf("URL", w->url, sizeof(w->url));
	where_conf("TOKEN", w->token, sizeof(w->token));
	where_conf("CACERT", w->cacert, sizeof(w->cacert));
}

/* The first line of a file; a negative errno without it. */
static int first_line(const char *dir, const char *name, char *ret, size_t size)
{
	char path[4096];
	FILE *file;
	int err = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	if (!fgets(ret, (int)size, file))
		err = -ENODATA;
	fclose(file);
	ret[err ? 0 : strcspn(ret, "\r\n")] = '\0';
	return err;
}

static int from_state(struct where *w, bool want_token, char *ret_why, size_t size)
{
	const char *state = getenv("STATE");
	int err;

	if (!state || !*state)
		state = "./state";
	if (first_line(state, "url", w->url, sizeof(w->url)) < 0 || !want_token)
		return EXIT_OK;
	err = first_line(state, "token", w->token, sizeof(w->token));
	if (err != -EACCES && err != -EPERM)
		return EXIT_OK;
	snprintf(ret_why, size,
		 "%.300s/token may only be read by who started the appliance: use sudo, or set CARREL_TOKEN.",
		 state);
	return EXIT_FAILED;
}

/* What the environment leaves open. The key of one appliance is never sent to another. */
static int from_files(struct where *w, char *ret_why, size_t size)
{
	struct where file = { "", "", "" };
	int code = EXIT_OK;

	from_conf(&file);
	if (!w->cacert[0])
		snprintf(w->cacert, sizeof(w->cacert), "%s", file.cacert);
	if (!file.url[0])
		code = from_state(&file, !w->token[0], ret_why, size);
	if (!w->url[0])
		snprintf(w->url, sizeof(w->url), "%s", file.url);
	if (!w->token[0] && strcmp(w->url, file.url) == 0)
		snprintf(w->token, sizeof(w->token), "%s", file.token);
	return code;
}

int where_find(struct where *ret, char *ret_why, size_t size)
{
	const char *url = getenv("CARREL_URL"), *token = getenv("CARREL_TOKEN"), *cacert = getenv("CARREL_CACERT");
	struct where w = { "", "", "" };
	int code = EXIT_OK;

	snprintf(w.url, sizeof(w.url), "%s", url ? url : "");
	snprintf(w.token, sizeof(w.token), "%s", token ? token : "");
	snprintf(w.cacert, sizeof(w.cacert), "%s", cacert ? cacert : "");
	if (!w.url[0] || !w.token[0])
		code = from_files(&w, ret_why, size);
	if (code)
		return code;
	if (!w.url[0]) {
		snprintf(ret_why, size,
			 "No appliance is known here: start one with `make run` and call this from the same "
			 "directory, or set CARREL_URL and CARREL_TOKEN.");
		return EXIT_UNREACHABLE;
	}
	if (!w.token[0]) {
		snprintf(ret_why, size, "There is no key for %s: set CARREL_TOKEN to one of yours.", w.url);
		return EXIT_FAILED;
	}
	for (size_t len = strlen(w.url); len > 0 && w.url[len - 1] == '/'; len--)
		w.url[len - 1] = '\0';
	*ret = w;
	return EXIT_OK;
}
