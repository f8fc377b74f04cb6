#include "bash/paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

/* The folder that ~ or ~NAME stands for; the text after it. NULL: nobody's. */
static const char *home_of(const char *word, const char **rest)
{
	size_t n = strcspn(word, "/");
	const char *home = getenv("HOME");
	struct passwd *pw;
	char name[64];

	*rest = word + n;
	if (n == 1 && home)
		return home;
	if (n >= sizeof(name))
		return NULL;
	memcpy(name, word + 1, n - 1);
	name[n - 1] = '\0';
	pw = n == 1 ? getpwuid(getuid()) : getpwnam(name);
	return pw ? pw->pw_dir : NULL;
}

static DIR *open_at(const char *base, const char *path)
{
	int dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC), fd;
	DIR *d;

	if (dir < 0)
		return NULL;
	fd = openat(dir, path[0] ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	close(dir);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !d)
		close(fd);
	return d;
}

static bool is_wanted(const struct paths *p, DIR *d, const struct dirent *de, bool *ret_folder)
{
	bool unknown = de->d_type == DT_UNKNOWN || de->d_type == DT_LNK;
	struct stat st;

	*ret_folder = de->d_type == DT_DIR;
	if (unknown && fstatat(dirfd(d), de->d_name, &st, 0) == 0)
		*ret_folder = S_ISDIR(st.st_mode);
	return *ret_folder || !p->executables || faccessat(dirfd(d), de->d_name, X_OK, 0) == 0;
}

/* typed is what stays of the word, prefix the beginning of a name. */
static void find_in(const struct paths *p, DIR *d, const char *typed, size_t typed_len, const char *prefix,
		    void (*take)(void *arg, const char *name), void *arg)
{
	char name[PATH_MAX + NAME_MAX + 2];
	size_t n = strlen(prefix), looked = 0, found = 0;
	struct dirent *de;
	bool folder;

	while (looked++ < PATHS_ENTRIES_MAX && found < PATHS_MAX && (de = readdir(d))) {
		if (strncmp(de->d_name, prefix, n) || (n == 0 && de->d_name[0] == '.') ||
		    !strcmp(de->d_name, ".") || !strcmp(de->d_name, "..") || !is_wanted(p, d, de, &folder))
			continue;
		snprintf(name, sizeof(name), "%.*s%s%s", (int)typed_len, typed, de->d_name,
			 folder ? "/" : "");
		take(arg, name);
		found++;
	}
}

/* ~na: names of users. */
static void find_users(const char *word, void (*take)(void *arg, const char *name), void *arg)
{
	size_t n = strlen(word + 1), found = 0;
	struct passwd *pw;
	char name[128];

	setpwent();
	while (found++ < PATHS_MAX && (pw = getpwent())) {
		if (strncmp(pw->pw_name, word + 1, n))
			continue;
		snprintf(name, sizeof(name), "~%.100s/", pw->pw_name);
		take(arg, name);
	}
	endpwent();
}

void paths_find(const struct paths *p, const char *word, void (*take)(void *arg, const char *name), void *arg)
{
	const char *slash = strrchr(word, '/'), *rest = word, *base = p->base;
	size_t typed_len = slash ? (size_t)(slash + 1 - word) : 0;
	char folder[PATH_MAX];
	DIR *d;

	if (strlen(word) >= PATH_MAX)
		return;
	if (p->tilde && !slash) {
		find_users(word, take, arg);
		return;
	}
	if (p->tilde)
		base = home_of(word, &rest);
	if (!base)
		return;
	/* ./ before a name that was behind a ~: it is no absolute one. */
	snprintf(folder, sizeof(folder), "%s%.*s", p->tilde ? "." : "", slash ? (int)(slash + 1 - rest) : 0,
		 rest);
	d = open_at(base, folder);
	if (!d)
		return;
	find_in(p, d, word, typed_len, word + typed_len, take, arg);
	closedir(d);
}
