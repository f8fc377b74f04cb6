#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "../store/ids.h"
#include "base.h"
#include "disk.h"
#include "times.h"

static const char tmp_prefix[] = ".making-";

void snapshot_key(const struct image *image, const char *fingerprint, const struct vm_class *cls,
		  char ret[65])
{
	unsigned char sum[SHA256_DIGEST_LENGTH];
	char text[1024];
	size_t i;

	snprintf(text, sizeof(text), "%d\n%s\n%s\n%u %u %u\n", SNAPSHOT_VERSION, image->hash, fingerprint,
		 cls->memory_mb, cls->vcpus, cls->disk_mb);
	SHA256((const unsigned char *)text, strlen(text), sum);
	for (i = 0; i < 16; i++)
		snprintf(ret + 2 * i, 3, "%02x", sum[i]);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void snapshot_close(struct snapshot *s)
{
	close_fd(&s->ram_fd);
	close_fd(&s->state_fd);
	close_fd(&s->scratch_fd);
	close_fd(&s->lock_fd);
}

static int file_open(const struct snapshot *s, const char *name, int flags, int *ret, struct fault *f)
{
	char path[SNAPSHOT_PATH_MAX + 32];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", s->path, name);
	fd = open(path, flags | O_CLOEXEC, 0600);
	if (fd < 0)
		return fault_set(f, errno, 500, "snapshot", "%s cannot be opened: %s.", path,
				 strerror(errno));
	*ret = fd;
	return 0;
}

static int files_open(struct snapshot *s, int flags, struct fault *f)
{
	int err = file_open(s, "ram", flags, &s->ram_fd, f);

	if (!err)
		err = file_open(s, "state", flags, &s->state_fd, f);
	/* The template boots from the scratch disk that scratch_make() leaves there. */
	if (!err && !(flags & O_CREAT))
		err = file_open(s, "scratch.ext4", flags, &s->scratch_fd, f);
	return err;
}

static void files_stat(struct snapshot *s)
{
	fstat(s->ram_fd, &s->ram_stat);
	fstat(s->state_fd, &s->state_stat);
	fstat(s->scratch_fd, &s->scratch_stat);
}

static bool same_file(int fd, const struct stat *was)
{
	struct stat now;

	return fstat(fd, &now) == 0 && now.st_nlink > 0 && now.st_size == was->st_size &&
	       now.st_mtim.tv_sec == was->st_mtim.tv_sec && now.st_mtim.tv_nsec == was->st_mtim.tv_nsec;
}

bool snapshot_unchanged(const struct snapshot *s)
{
	return same_file(s->ram_fd, &s->ram_stat) && same_file(s->state_fd, &s->state_stat) &&
	       same_file(s->scratch_fd, &s->scratch_stat);
}

static int file_check(int fd, const char *name, json_t *files, struct fault *f)
{
	const char *want = json_string_value(json_object_get(files, name));
	char hash[DISK_HASH_SIZE];
	int err = disk_hash(fd, hash);

	if (err < 0)
		return fault_set(f, -err, 500, "snapshot", "The snapshot's %s cannot be read: %s.", name,
				 strerror(-err));
	if (!want || strcmp(want, hash) != 0)
		return fault_set(f, EUCLEAN, 500, "snapshot",
				 "The snapshot's %s is not what its manifest says.", name);
	return 0;
}

static json_t *warm_json(const struct snapshot *s)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < s->warm_count; i++)
		json_array_append_new(list, json_pack("{s:s,s:I,s:I}", "language", s->warm[i].language, "received",
						      (json_int_t)s->warm[i].received, "sent",
						      (json_int_t)s->warm[i].sent));
	return list;
}

static void warm_read(struct snapshot *s, json_t *list)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		struct snapshot_channel *c = &s->warm[s->warm_count];
		const char *language = json_string_value(json_object_get(one, "language"));

		if (!language || s->warm_count == SNAPSHOT_WARM_MAX)
			continue;
		snprintf(c->language, sizeof(c->language), "%s", language);
		c->received = (uint64_t)json_integer_value(json_object_get(one, "received"));
		c->sent = (uint64_t)json_integer_value(json_object_get(one, "sent"));
		s->warm_count++;
	}
}

static int manifest_read(struct snapshot *s, json_t *manifest, struct fault *f)
{
	json_t *files = json_object_get(manifest, "sha256"), *channel = json_object_get(manifest, "channel");
	json_t *cls = json_object_get(manifest, "class");
	int err;

	s->cls.memory_mb = (unsigned)json_integer_value(json_object_get(cls, "memory_mb"));
	s->cls.vcpus = (unsigned)json_integer_value(json_object_get(cls, "vcpus"));
	s->cls.disk_mb = (unsigned)json_integer_value(json_object_get(cls, "disk_mb"));
	s->received = (uint64_t)json_integer_value(json_object_get(channel, "received"));
	s->sent = (uint64_t)json_integer_value(json_object_get(channel, "sent"));
	warm_read(s, json_object_get(manifest, "warm"));
	snprintf(s->ram_hash, sizeof(s->ram_hash), "%s", json_string_value(json_object_get(files, "ram")) ?: "");
	files_stat(s);
	err = file_check(s->ram_fd, "ram", files, f);
	if (!err)
		err = file_check(s->state_fd, "state", files, f);
	if (!err)
		err = file_check(s->scratch_fd, "scratch.ext4", files, f);
	return err;
}

int snapshot_open(const char *path, struct snapshot *ret, struct fault *f)
{
	struct snapshot s = { .ram_fd = -1, .state_fd = -1, .scratch_fd = -1, .lock_fd = -1 };
	char name[SNAPSHOT_PATH_MAX + 32];
	json_error_t error;
	json_t *manifest;
	int err;

	snprintf(s.path, sizeof(s.path), "%s", path);
	snprintf(name, sizeof(name), "%s/manifest.json", path);
	if (access(name, F_OK) < 0)
		return fault_set(f, ENOENT, 500, "snapshot", "There is no snapshot %s yet.", path);
	manifest = json_load_file(name, 0, &error);
	if (!manifest)
		return fault_set(f, EUCLEAN, 500, "snapshot", "%s is not JSON: %s.", name, error.text);
	err = files_open(&s, O_RDONLY, f);
	if (!err)
		err = manifest_read(&s, manifest, f);
	json_decref(manifest);
	if (err < 0) {
		snapshot_close(&s);
		return err;
	}
	*ret = s;
	return 0;
}

int scratch_make(const char *path, int from_fd, unsigned disk_mb, unsigned inodes, int *ret_fd, struct fault *f)
{
	int fd, err;

	unlink(path);
	err = from_fd < 0 ? disk_format(path, disk_mb, inodes, f) : 0;
	if (err < 0)
		return err;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return fault_set(f, errno, 500, "disk", "%s cannot be made: %s.", path, strerror(errno));
	if (from_fd >= 0)
		err = disk_copy_sparse(from_fd, fd);
	if (err < 0) {
		close(fd);
		unlink(path);
		return fault_set(f, -err, err == -ENOSPC ? 507 : 500, err == -ENOSPC ? "disk_full" : "disk",
				 "The sandbox's disk could not be copied to %s: %s.", path, strerror(-err));
	}
	*ret_fd = fd;
	return 0;
}

/* The lock goes with its holder, however that ends. -1: somebody else has it. */
static int dir_lock(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		close_fd(&fd);
	return fd;
}

static ino_t dir_inode(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_ino : 0;
}

int snapshot_begin(const char *path, const struct image *image, const struct vm_class *cls,
		   struct snapshot *ret, struct fault *f)
{
	struct snapshot s = { .cls = *cls, .ram_fd = -1, .state_fd = -1, .scratch_fd = -1, .lock_fd = -1 };
	const char *slash = strrchr(path, '/');
	char scratch[SNAPSHOT_PATH_MAX + 32], id[STORE_ID_MAX];
	int err;

	id_new("s", id);
	snprintf(s.path, sizeof(s.path), "%.*s/%s%s", (int)(slash - path), path, tmp_prefix, id);
	if (mkdir(s.path, 0700) < 0)
		return fault_set(f, errno, 500, "snapshot", "%s cannot be made: %s.", s.path,
				 strerror(errno));
	s.lock_fd = dir_lock(s.path);
	s.replaces = dir_inode(path);
	snprintf(scratch, sizeof(scratch), "%s/scratch.ext4", s.path);
	err = files_open(&s, O_RDWR | O_CREAT, f);
	if (!err && ftruncate(s.ram_fd, (off_t)cls->memory_mb * 1024 * 1024) < 0)
		err = fault_set(f, errno, 500, "snapshot", "%s/ram cannot be sized: %s.", s.path,
				strerror(errno));
	if (!err)
		err = scratch_make(scratch, image->disk_mb == cls->disk_mb ? image->scratch_fd : -1,
				   cls->disk_mb, 0, &s.scratch_fd, f);
	if (err < 0) {
		snapshot_drop(&s);
		return err;
	}
	*ret = s;
	return 0;
}

static int file_seal(int fd, const char *name, json_t *files, struct fault *f)
{
	char hash[DISK_HASH_SIZE];
	int err = fsync(fd) < 0 ? -errno : disk_hash(fd, hash);

	if (err < 0)
		return fault_set(f, -err, 500, "snapshot", "The snapshot's %s could not be saved: %s.", name,
				 strerror(-err));
	json_object_set_new(files, name, json_string(hash));
	return 0;
}

static int manifest_write(const struct snapshot *s, json_t *manifest, struct fault *f)
{
	int fd = -1, err = file_open(s, "manifest.json", O_WRONLY | O_CREAT | O_TRUNC, &fd, f);

	if (err < 0)
		return err;
	if (json_dumpfd(manifest, fd, JSON_INDENT(2)) < 0 || fsync(fd) < 0)
		err = fault_set(f, EIO, 500, "snapshot", "%s/manifest.json could not be written.", s->path);
	close(fd);
	return err;
}

/* Makes room at path. What was cloned from the one that is there may still be saved, and needs its memory
 * file then: the next start that finds it without pins removes it. */
static void snapshot_displace(const char *path)
{
	char name[SNAPSHOT_PATH_MAX + 32], aside[BASE_PATH_MAX];
	json_t *manifest;
	const char *ram;

	snprintf(name, sizeof(name), "%s/manifest.json", path);
	manifest = json_load_file(name, 0, NULL);
	ram = json_string_value(json_object_get(json_object_get(manifest, "sha256"), "ram"));
	if (ram) {
		base_aside(path, ram, aside);
		rename(path, aside);
	}
	json_decref(manifest);
	disk_remove_dir(path);
}

/* Another appliance on this cache was quicker: its snapshot instead of ours. */
static bool snapshot_overtaken(struct snapshot *s, const char *path)
{
	ino_t there = dir_inode(path);
	struct snapshot other;
	struct fault why;

	if (!there || there == s->replaces || snapshot_open(path, &other, &why) < 0)
		return false;
	snapshot_drop(s);
	*s = other;
	return true;
}

int snapshot_seal(struct snapshot *s, const char *path, const char *fingerprint, const struct image *image,
		  struct fault *f)
{
	json_t *files = json_object(), *manifest;
	char parent[SNAPSHOT_PATH_MAX], made_at[TIME_SIZE];
	int err = file_seal(s->ram_fd, "ram", files, f);

	if (!err) {
		snprintf(s->ram_hash, sizeof(s->ram_hash), "%s",
			 json_string_value(json_object_get(files, "ram")));
		err = file_seal(s->state_fd, "state", files, f);
	}
	if (!err)
		err = file_seal(s->scratch_fd, "scratch.ext4", files, f);
	time_format(unix_ms(), made_at);
	manifest = json_pack("{s:i,s:s,s:s,s:s,s:{s:i,s:i,s:i},s:{s:I,s:I},s:o,s:o}", "version", SNAPSHOT_VERSION,
			     "made_at", made_at, "image", image->hash, "engine", fingerprint, "class",
			     "memory_mb", (int)s->cls.memory_mb, "vcpus", (int)s->cls.vcpus, "disk_mb",
			     (int)s->cls.disk_mb, "channel", "received", (json_int_t)s->received, "sent",
			     (json_int_t)s->sent, "warm", warm_json(s), "sha256", files);
	if (!err)
		err = manifest_write(s, manifest, f);
	json_decref(manifest);
	if (!err)
		err = disk_sync_dir(s->path);
	if (err < 0)
		return err;
	if (snapshot_overtaken(s, path))
		return 0;
	snapshot_displace(path);
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
	if (rename(s->path, path) < 0)
		return fault_set(f, errno, 500, "snapshot", "%s could not be moved to %s: %s.", s->path, path,
				 strerror(errno));
	disk_sync_dir(parent);
	snprintf(s->path, sizeof(s->path), "%s", path);
	/* From now on nobody here can write into it. */
	snapshot_close(s);
	err = files_open(s, O_RDONLY, f);
	if (!err)
		files_stat(s);
	return err;
}

void snapshot_drop(struct snapshot *s)
{
	snapshot_close(s);
	disk_remove_dir(s->path);
}

/* Nobody works on it: its maker was killed. */
static void sweep_unfinished(const char *path)
{
	int lock = dir_lock(path);

	if (lock < 0)
		return;
	disk_remove_dir(path);
	close(lock);
}

/* Its image was removed from the cache, or another has taken its place: nobody starts anything new from it
 * again. Who has it open keeps it until it is done. */
static void sweep_outdated(const char *path, const char *images_dir)
{
	bool aside = strchr(strrchr(path, '/'), '-') != NULL;
	char name[SNAPSHOT_PATH_MAX + 32], image[SNAPSHOT_PATH_MAX];
	json_t *manifest;
	const char *hash;

	snprintf(name, sizeof(name), "%s/manifest.json", path);
	manifest = json_load_file(name, 0, NULL);
	hash = json_string_value(json_object_get(manifest, "image"));
	if (hash && !strchr(hash, '/')) {
		snprintf(image, sizeof(image), "%s/%s", images_dir, hash);
		if ((aside || (access(image, F_OK) < 0 && errno == ENOENT)) && !base_pinned(path))
			disk_remove_dir(path);
	}
	json_decref(manifest);
}

void snapshot_sweep(const char *snapshots_dir, const char *images_dir)
{
	DIR *dir = opendir(snapshots_dir);
	char path[SNAPSHOT_PATH_MAX];
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", snapshots_dir, entry->d_name);
		if (strncmp(entry->d_name, tmp_prefix, sizeof(tmp_prefix) - 1) == 0)
			sweep_unfinished(path);
		else if (entry->d_name[0] != '.')
			sweep_outdated(path, images_dir);
	}
	closedir(dir);
}
