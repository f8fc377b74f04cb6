#include "env.h"

#include "agent.h"
#include "util.h"

const char *env_wrong(json_t *env)
{
	size_t total = 0;
	const char *name;
	json_t *value;

	if (!env)
		return NULL;
	if (!json_is_object(env))
		return "must be an object of strings";
	json_object_foreach(env, name, value)
	{
		if (!json_is_string(value))
			return "must hold strings only";
		if (!name[0] || strchr(name, '='))
			return "has an empty name or one with '='";
		total += strlen(name) + json_string_length(value) + 2;
	}
	return total > AGENT_ENV_MAX ? "is larger than 64 KiB" : NULL;
}

json_t *env_object(const struct agent *a, json_t *extra)
{
	const char *home = a->opt.home;
	json_t *env = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "HOME", home, "USER", "user", "LOGNAME",
				"user", "SHELL", "/bin/bash", "LANG", "C.UTF-8", "PATH",
				"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");

	if (!env)
		abort();
	if (a->env)
		json_object_update(env, a->env);
	if (extra)
		json_object_update(env, extra);
	return env;
}

char **env_list(json_t *env)
{
	char **list = xcalloc(json_object_size(env) + 1, sizeof(*list));
	const char *name;
	json_t *value;
	size_t n = 0;

	json_object_foreach(env, name, value) list[n++] = xasprintf("%s=%s", name, json_string_value(value));
	return list;
}

void env_list_free(char **list)
{
	size_t i;

	for (i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}
