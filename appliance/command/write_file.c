#include "write_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"

static int folder_make(const char *path)
{
	return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

int make_folders(const char *path)
{
	char *part = strdup(path), *slash;
	int err = part ? 0 : -ENOMEM;

	for (slash = err ? NULL : strchr(part + 1, '/'); !err && slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		err = folder_make(part);
		*slash = '/';
	}
	if (!err)
		err = folder_make(part);
	free(part);
	return err ? complain(EXIT_FAILED, "%s cannot be made: %s.", path, strerror(-err)) : EXIT_OK;
}

static int fill(int fd, const char *text)
{
	FILE *f = fdopen(fd, "w");
	int err = 0;

	if (!f) {
		err = -errno;
		close(fd);
		return err;
	}
	if (fputs(text, f) < 0)
		err = -errno;
	if (fclose(f) != 0)
		err = -errno;
	return err;
}

int write_file(const char *folder, const char *name, mode_t mode, const char *text)
{
	char path[PATH_MAX + 32], part[PATH_MAX + 40];
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	snprintf(part, sizeof(part), "%s.part", path);
	unlink(part);
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	err = fd < 0 ? -errno : fill(fd, text);
	if (!err && rename(part, path) < 0)
		err = -errno;
	if (!err)
		return EXIT_OK;
	if (fd >= 0)
		unlink(part);
	return complain(EXIT_FAILED, "%s cannot be written: %s.", path, strerror(-err));
}
