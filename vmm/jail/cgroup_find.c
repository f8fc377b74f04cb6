/* Where control groups are mounted and which of them this process is in. */
#include "cgroup_ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line at *text, without its newline, copied; *text moves on. */
static bool line_next(const char **text, char *ret, size_t size)
{
	size_t n = strcspn(*text, "\n");

	if (!**text)
		return false;
	snprintf(ret, size, "%.*s", (int)n, *text);
	*text += n + ((*text)[n] == '\n');
	return true;
}

/* Is word one of the comma-separated words of list? */
static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)) != NULL; p += n)
		if ((p == list || p[-1] == ',') && (p[n] == '\0' || p[n] == ','))
			return true;
	return false;
}

/* "36 35 0:32 /root /mount/point rw,… shared:1 - cgroup source rw,memory" */
static bool mount_matches(const char *line, struct cgroup_mount *ret, const char *controller)
{
	char root[CGROUP_PATH_MAX], point[CGROUP_PATH_MAX], type[32], options[256];
	const char *rest = strstr(line, " - ");

	if (!rest || sscanf(line, "%*s %*s %*s %383s %383s", root, point) != 2 ||
	    sscanf(rest, " - %31s %*s %255s", type, options) != 2)
		return false;
	if (strcmp(type, controller ? "cgroup" : "cgroup2") != 0)
		return false;
	if (controller && !list_has(options, controller))
		return false;
	snprintf(ret->root, sizeof(ret->root), "%s", root);
	snprintf(ret->point, sizeof(ret->point), "%s", point);
	return true;
}

int cgroup_mount_find(struct cgroup_mount *ret, const char *mountinfo, const char *controller)
{
	struct cgroup_mount mount;
	char line[2048];

	while (line_next(&mountinfo, line, sizeof(line)))
		if (mount_matches(line, &mount, controller)) {
			*ret = mount;
			return 0;
		}
	return -ENOENT;
}

/* "4:memory:/own/path"; version 2: "0::/own/path" */
static const char *own_path(char *line, const char *controller)
{
	char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

	if (!path)
		return NULL;
	*path = '\0';
	if (controller ? list_has(list + 1, controller) : list[1] == '\0' && line[0] == '0')
		return path + 1;
	return NULL;
}

int cgroup_own_dir(char *ret, size_t size, const struct cgroup_mount *mount, const char *self_cgroup,
		   const char *controller)
{
	size_t root = strlen(mount->root);
	const char *path = NULL;
	char line[1024];
	int n;

	while (!path && line_next(&self_cgroup, line, sizeof(line)))
		path = own_path(line, controller);
	if (!path)
		return -ENOENT;
	/* In a container the mount shows a part of the tree only. */
	if (root > 1 && strncmp(path, mount->root, root) == 0)
		path += root;
	if (strcmp(path, "/") == 0)
		path = "";
	n = snprintf(ret, size, "%s%s", mount->point, path);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}
