#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char pin_prefix[] = "pin-";

enum { ASIDE_DIGITS = 16 }; /* of the memory's hash, in a directory's name */

void base_text(const struct base *b, char ret[BASE_TEXT_MAX])
{
	ret[0] = '\0';
	if (b->key[0])
		snprintf(ret, BASE_TEXT_MAX, "%s %s", b->key, b->ram);
}

bool base_parse(const char *text, struct base *ret)
{
	size_t key = text ? strspn(text, "0123456789abcdef") : 0;
	const char *ram = key ? text + key + 1 : NULL;

	*ret = (struct base){ .key = "" };
	if (key == 0 || key >= BASE_KEY_MAX || text[key] != ' ' ||
	    strspn(ram, "0123456789abcdef") != BASE_RAM_MAX - 1 || ram[BASE_RAM_MAX - 1])
		return false;
	memcpy(ret->key, text, key);
	memcpy(ret->ram, ram, BASE_RAM_MAX);
	return true;
}

void base_aside(const char *path, const char *ram, char ret[BASE_PATH_MAX])
{
	snprintf(ret, BASE_PATH_MAX, "%.*s-%.*s", BASE_PATH_MAX - ASIDE_DIGITS - 2, path, ASIDE_DIGITS, ram);
}

/* Whether the snapshot in dir has this memory. */
static bool base_is(const char *dir, const struct base *b)
{
	char name[BASE_PATH_MAX + 32];
	json_t *manifest;
	const char *ram;
	bool is;

	snprintf(name, sizeof(name), "%s/manifest.json", dir);
	manifest = json_load_file(name, 0, NULL);
	ram = json_string_value(json_object_get(json_object_get(manifest, "sha256"), "ram"));
	is = ram && strcmp(ram, b->ram) == 0;
	json_decref(manifest);
	return is;
}

int base_find(const char *snapshots_dir, const struct base *b, char ret[BASE_PATH_MAX], struct fault *f)
{
	char dir[BASE_PATH_MAX], aside[BASE_PATH_MAX];

	snprintf(dir, sizeof(dir), "%s/%s", snapshots_dir, b->key);
	base_aside(dir, b->ram, aside);
	if (b->key[0] && base_is(dir, b))
		memcpy(ret, dir, sizeof(dir));
	else if (b->key[0] && base_is(aside, b))
		memcpy(ret, aside, sizeof(aside));
	else
		return fault_set(f, ENOENT, 500, "snapshot_missing",
				 "The warm snapshot %.32s that this sandbox was cloned from is not in the "
				 "cache any more.",
				 b->key);
	return 0;
}

static void pin_path(const char *dir, const char *name, char *ret, size_t size)
{
	snprintf(ret, size, "%s/%s%s", dir, pin_prefix, name);
}

int base_pin(const char *snapshots_dir, const struct base *b, const char *name, struct fault *f)
{
	char dir[BASE_PATH_MAX], path[BASE_PATH_MAX + 64];
	int fd, err = base_find(snapshots_dir, b, dir, f);

	if (err < 0)
		return err;
	pin_path(dir, name, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return fault_set(f, errno, errno == ENOSPC ? 507 : 500,
				 errno == ENOSPC ? "disk_full" : "snapshot", "%s cannot be made: %s.", path,
				 strerror(errno));
	futimens(fd, NULL);
	close(fd);
	return 0;
}

void base_unpin(const char *snapshots_dir, const struct base *b, const char *name)
{
	char dir[BASE_PATH_MAX], path[BASE_PATH_MAX + 64];
	struct fault f;

	if (!b->key[0] || base_find(snapshots_dir, b, dir, &f) < 0)
		return;
	pin_path(dir, name, path, sizeof(path));
	unlink(path);
}

bool base_pinned(const char *dir_name)
{
	time_t oldest = time(NULL) - (time_t)BASE_PIN_DAYS * 24 * 3600;
	DIR *dir = opendir(dir_name);
	struct dirent *entry;
	bool pinned = false;
	struct stat st;

	while (dir && !pinned && (entry = readdir(dir)) != NULL)
		pinned = strncmp(entry->d_name, pin_prefix, sizeof(pin_prefix) - 1) == 0 &&
			 fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			 st.st_mtime >= oldest;
	if (dir)
		closedir(dir);
	return pinned;
}
