/* Making and removing. */
#include "set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "set_inner.h"
#include "times.h"
#include "vmm/host/pages.h"

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void set_close(struct set *s)
{
	close_fd(&s->state_fd);
	close_fd(&s->pages_fd);
	close_fd(&s->scratch_fd);
	close_fd(&s->ram_fd);
	close_fd(&s->rootfs_fd);
	json_decref(s->inside);
	s->inside = NULL;
}

void set_drop(struct set *s)
{
	set_close(s);
	if (s->path[0])
		disk_remove_dir(s->path);
	s->path[0] = '\0';
}

int set_fault(struct fault *f, int err, const char *what, const char *path)
{
	if (err == -ENOSPC || err == -EDQUOT)
		return fault_set(f, ENOSPC, 507, "disk_full",
				 "The host's disk is full: %s (%s). Free some space and try again.", what,
				 path);
	return fault_set(f, -err, 500, "disk", "%s (%s): %s.", what, path, strerror(-err));
}

int set_file(const struct set *s, const char *name, int flags, int *ret, struct fault *f)
{
	char path[SET_PATH_MAX + 32];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", s->path, name);
	fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return set_fault(f, -errno, "a file of a saved sandbox cannot be opened", path);
	*ret = fd;
	return 0;
}

int set_begin(const char *path, struct set *ret, struct fault *f)
{
	struct set s = SET_NONE;
	const char *slash = strrchr(path, '/');
	int err;

	snprintf(s.path, sizeof(s.path), "%.*s/" SET_MAKING "%s", (int)(slash - path), path, slash + 1);
	disk_remove_dir(s.path);
	if (mkdir(s.path, 0700) < 0)
		return set_fault(f, -errno, "a directory for the saved sandbox cannot be made", s.path);
	err = set_file(&s, "state", O_RDWR | O_CREAT, &s.state_fd, f);
	if (!err)
		err = set_file(&s, "pages", O_RDWR | O_CREAT, &s.pages_fd, f);
	if (err < 0) {
		set_drop(&s);
		return err;
	}
	*ret = s;
	return 0;
}

static int copy_into(struct set *s, const char *name, int from, int *to, struct fault *f)
{
	int err = *to >= 0 ? 0 : set_file(s, name, O_RDWR | O_CREAT, to, f);

	if (err < 0)
		return err;
	err = disk_copy_sparse(from, *to);
	return err < 0 ? set_fault(f, err, "a file of the saved sandbox cannot be copied", s->path) : 0;
}

int set_add_disk(struct set *s, int from_fd, struct fault *f)
{
	return copy_into(s, "scratch.ext4", from_fd, &s->scratch_fd, f);
}

int set_copy(struct set *s, const struct set *from, struct fault *f)
{
	int err = copy_into(s, "state", from->state_fd, &s->state_fd, f);

	if (!err)
		err = copy_into(s, "pages", from->pages_fd, &s->pages_fd, f);
	if (!err)
		err = set_add_disk(s, from->scratch_fd, f);
	return err;
}

/* --- seal --- */

static int sync_file(const struct set *s, int fd, struct fault *f)
{
	return fsync(fd) < 0 ? set_fault(f, -errno, "the saved sandbox cannot be synced", s->path) : 0;
}

/* What the manifest says of the disk: a set's own by its hash, a paused sandbox's by its times. */
static int disk_facts(struct set *s, const char *disk, json_t **ret, struct fault *f)
{
	char hash[DISK_HASH_SIZE];
	struct stat st;
	int err = 0, fd = disk ? open(disk, O_RDONLY | O_CLOEXEC) : s->scratch_fd;

	if (fd < 0)
		return set_fault(f, disk ? -errno : -EBADF, "the sandbox's disk cannot be opened", s->path);
	if (fsync(fd) < 0 || fstat(fd, &st) < 0)
		err = -errno;
	if (!err && !disk)
		err = disk_hash(fd, hash);
	if (disk)
		close(fd);
	if (err < 0)
		return set_fault(f, err, "the sandbox's disk cannot be saved", s->path);
	*ret = disk ? json_pack("{s:I,s:I,s:I,s:I}", "bytes", (json_int_t)st.st_size, "inode",
				(json_int_t)st.st_ino, "mtime_s", (json_int_t)st.st_mtim.tv_sec, "mtime_ns",
				(json_int_t)st.st_mtim.tv_nsec)
		    : json_pack("{s:I,s:s}", "bytes", (json_int_t)st.st_size, "sha256", hash);
	if (!disk)
		s->file_bytes += (uint64_t)st.st_blocks * 512;
	return 0;
}

static int set_manifest(struct set *s, const char *disk, json_t *extra, json_t **ret, struct fault *f)
{
	struct pages_info pages;
	char message[256], made_at[TIME_SIZE], sum[DISK_HASH_SIZE];
	json_t *facts = NULL, *manifest;
	struct stat state;
	int err = pages_info(s->pages_fd, &pages, message, sizeof(message));

	if (err < 0)
		return fault_set(f, -err, 500, "engine", "%s", message);
	if (fstat(s->state_fd, &state) < 0)
		return set_fault(f, -errno, "the saved sandbox cannot be read", s->path);
	s->data_bytes = pages.data_bytes;
	s->file_bytes = (uint64_t)state.st_size + pages.file_bytes;
	err = disk_facts(s, disk, &facts, f);
	if (err < 0)
		return err;
	time_format(unix_ms(), made_at);
	manifest = json_pack("{s:i,s:s,s:s,s:s,s:{s:s,s:s},s:{s:i,s:i,s:i},s:{s:I},s:{s:I,s:I,s:I},s:o,s:O}",
			     "version", SET_VERSION, "made_at", made_at, "image", s->image, "engine",
			     s->fingerprint, "base", "key", s->base.key, "ram", s->base.ram, "class",
			     "memory_mb", (int)s->cls.memory_mb, "vcpus", (int)s->cls.vcpus, "disk_mb",
			     (int)s->cls.disk_mb, "state", "bytes", (json_int_t)state.st_size, "pages",
			     "bytes", (json_int_t)pages.file_bytes, "data_bytes",
			     (json_int_t)pages.data_bytes, "sum", (json_int_t)pages.data_sum, "disk", facts,
			     "inside", s->inside);
	if (manifest && extra)
		json_object_update(manifest, extra);
	if (!manifest || !set_manifest_sum(manifest, sum) ||
	    json_object_set_new(manifest, "sum", json_string(sum)) < 0) {
		json_decref(manifest);
		return fault_no_memory(f);
	}
	*ret = manifest;
	return 0;
}

static int manifest_write(struct set *s, json_t *manifest, struct fault *f)
{
	int fd = -1, err = set_file(s, "manifest.json", O_WRONLY | O_CREAT | O_TRUNC, &fd, f);

	if (err < 0)
		return err;
	errno = 0;
	if (json_dumpfd(manifest, fd, JSON_INDENT(2)) < 0 || fsync(fd) < 0)
		err = set_fault(f, errno ? -errno : -EIO, "the manifest cannot be written", s->path);
	close(fd);
	return err;
}

int set_seal(struct set *s, const char *path, const char *disk, json_t *extra, struct fault *f)
{
	char parent[SET_PATH_MAX];
	json_t *manifest = NULL;
	int err = sync_file(s, s->state_fd, f);

	if (!err)
		err = sync_file(s, s->pages_fd, f);
	if (!err)
		err = set_manifest(s, disk, extra, &manifest, f);
	if (!err)
		err = manifest_write(s, manifest, f);
	json_decref(manifest);
	if (!err && disk_sync_dir(s->path) < 0)
		err = set_fault(f, -EIO, "the saved sandbox cannot be synced", s->path);
	if (err < 0)
		return err;
	disk_remove_dir(path);
	if (rename(s->path, path) < 0)
		return set_fault(f, -errno, "the saved sandbox cannot get its name", path);
	snprintf(s->path, sizeof(s->path), "%s", path);
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
	err = disk_sync_dir(parent);
	return err < 0 ? set_fault(f, err, "the saved sandbox cannot be synced", path) : 0;
}

void set_remove(const char *path, const char *snapshots_dir, const char *pin)
{
	char making[SET_PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct base base;

	if (set_base(path, &base))
		base_unpin(snapshots_dir, &base, pin);
	disk_remove_dir(path);
	snprintf(making, sizeof(making), "%.*s/" SET_MAKING "%s", (int)(slash - path), path, slash + 1);
	disk_remove_dir(making);
}
