#include "spec.h"

#include <dirent.h>
#include <strings.h>

#include "agent.h"
#include "env.h"
#include "util.h"

static bool is_argv(json_t *argv)
{
	json_t *word;
	size_t i;

	if (!json_is_array(argv) || json_array_size(argv) == 0 || json_array_size(argv) > AGENT_ARGV_MAX)
		return false;
	json_array_foreach(argv, i, word) if (!json_is_string(word)) return false;
	return true;
}

static void spec_add(struct agent *a, const char *name, char *folder, json_t *file)
{
	json_t *carrel = json_object_get(json_object_get(file, "metadata"), "carrel");
	json_t *parent = json_object_get(carrel, "parent");
	json_t *argv = json_object_get(file, "argv");
	json_t *env = json_object_get(file, "env");
	const char *language = json_string_value(json_object_get(file, "language"));
	const char *mode = json_string_value(json_object_get(file, "interrupt_mode"));
	struct spec *spec;

	if (!is_argv(argv) || !language || (parent && !is_argv(parent)) || env_wrong(env)) {
		log_line("%s/kernel.json is left out: it needs argv, language and, if any, a proper env",
			 folder);
		free(folder);
		return;
	}
	spec = xcalloc(1, sizeof(*spec));
	spec->name = xstrdup(name);
	spec->language = xstrdup(language);
	spec->folder = folder;
	spec->argv = json_incref(argv);
	spec->parent = json_incref(parent);
	spec->env = json_incref(env);
	spec->interrupt_message = parent || (mode && strcmp(mode, "message") == 0);
	spec->core = parent || json_is_true(json_object_get(carrel, "core"));
	LIST_INSERT_HEAD(&a->specs, spec, entry);
}

static void load_folder(struct agent *a, const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *de;

	if (!dir)
		return;
	while ((de = readdir(dir))) {
		cleanup_json json_t *file = NULL;
		cleanup_free char *path = NULL;
		json_error_t error;

		if (!id_is_valid(de->d_name) || spec_find(a, de->d_name, NULL))
			continue;
		path = xasprintf("%s/%s/kernel.json", folder, de->d_name);
		if (access(path, R_OK) < 0)
			continue;
		file = json_load_file(path, 0, &error);
		if (!file)
			log_line("%s is left out: line %d: %s", path, error.line, error.text);
		else
			spec_add(a, de->d_name, xasprintf("%s/%s", folder, de->d_name), file);
	}
	closedir(dir);
}

void spec_load(struct agent *a)
{
	cleanup_free char *folders = xstrdup(a->opt.kernels);
	char *at = folders, *folder;

	while ((folder = strsep(&at, ":")))
		if (*folder)
			load_folder(a, folder);
}

const struct spec *spec_find(const struct agent *a, const char *name, const char *language)
{
	const struct spec *spec, *found = NULL;

	LIST_FOREACH(spec, &a->specs, entry)
	{
		if (name && strcmp(spec->name, name) == 0)
			return spec;
		if (!name && strcasecmp(spec->language, language) == 0 && (!found || spec->parent))
			found = spec;
	}
	return found;
}

/* Kernelspecs name these two inside a word. */
static char *fill_in(const char *word, const char *name, const char *value)
{
	const char *at = strstr(word, name);

	if (!at || !value)
		return xstrdup(word);
	return xasprintf("%.*s%s%s", (int)(at - word), word, value, at + strlen(name));
}

char **spec_argv(const struct spec *spec, json_t *argv, const char *connection_file)
{
	char **list = xcalloc(json_array_size(argv) + 1, sizeof(*list));
	json_t *word;
	size_t i;

	json_array_foreach(argv, i, word)
	{
		cleanup_free char *half =
			fill_in(json_string_value(word), "{connection_file}", connection_file);

		list[i] = fill_in(half, "{resource_dir}", spec->folder);
	}
	return list;
}
