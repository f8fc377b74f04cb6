/* Opening a sealed set: everything that can be wrong with it is found here, so that
 * a machine is started only from what fits. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "set_inner.h"
#include "snapshot.h"
#include "vmm/host/pages.h"
#include "vmm/pages.h"

static json_t *manifest_load(const char *path)
{
	char name[SET_PATH_MAX + 32];

	snprintf(name, sizeof(name), "%s/manifest.json", path);
	return json_load_file(name, 0, NULL);
}

static int64_t number_of(json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const char *text_of(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static void base_read(json_t *manifest, struct base *ret)
{
	json_t *base = json_object_get(manifest, "base");
	char text[BASE_TEXT_MAX];

	snprintf(text, sizeof(text), "%s %s", text_of(base, "key"), text_of(base, "ram"));
	base_parse(text, ret);
}

bool set_base(const char *path, struct base *ret)
{
	json_t *manifest = manifest_load(path);

	if (manifest)
		base_read(manifest, ret);
	json_decref(manifest);
	return manifest != NULL;
}

/* The disk of a paused sandbox is the one that was sealed, and as it was. */
static bool disk_unchanged(json_t *manifest, const struct stat *st)
{
	json_t *disk = json_object_get(manifest, "disk");

	return number_of(disk, "bytes") == st->st_size && number_of(disk, "inode") == (int64_t)st->st_ino &&
	       number_of(disk, "mtime_s") == st->st_mtim.tv_sec &&
	       number_of(disk, "mtime_ns") == st->st_mtim.tv_nsec;
}

bool set_intact(const char *path, const char *disk)
{
	json_t *manifest = manifest_load(path);
	struct stat st;
	bool intact = manifest && stat(disk, &st) == 0 && disk_unchanged(manifest, &st);

	json_decref(manifest);
	return intact;
}

static int damaged(const struct set *s, struct fault *f, const char *what)
{
	return fault_set(f, EUCLEAN, 500, "snapshot_damaged", "What was saved in %.150s is damaged: %.120s", s->path,
			 what);
}

static int other(struct fault *f, const char *what, const char *was, const char *is)
{
	return fault_set(f, EPROTO, 409, "snapshot_version",
			 "It was saved on another %s (%.80s) than this one (%.80s) and cannot go on here.",
			 what, was, is);
}

static int facts_read(struct set *s, json_t *manifest, const struct set_host *host, struct fault *f)
{
	json_t *cls = json_object_get(manifest, "class"), *inside = json_object_get(manifest, "inside");
	char version[16], ours[16], sum[DISK_HASH_SIZE];

	if (!set_manifest_sum(manifest, sum) || strcmp(sum, text_of(manifest, "sum")) != 0)
		return damaged(s, f, "its manifest is not what was written.");
	snprintf(version, sizeof(version), "%d", (int)number_of(manifest, "version"));
	snprintf(ours, sizeof(ours), "%d", SET_VERSION);
	if (strcmp(version, ours) != 0)
		return other(f, "version of Carrel", version, ours);
	snprintf(s->image, sizeof(s->image), "%s", text_of(manifest, "image"));
	snprintf(s->fingerprint, sizeof(s->fingerprint), "%s", text_of(manifest, "engine"));
	if (strcmp(s->fingerprint, host->fingerprint) != 0)
		return other(f, "engine", s->fingerprint, host->fingerprint);
	s->cls = (struct vm_class){ .memory_mb = (unsigned)number_of(cls, "memory_mb"),
				    .vcpus = (unsigned)number_of(cls, "vcpus"),
				    .disk_mb = (unsigned)number_of(cls, "disk_mb") };
	base_read(manifest, &s->base);
	if (!s->base.key[0] || !s->image[0] || strchr(s->image, '/') || !json_is_object(inside))
		return damaged(s, f, "its manifest lacks members.");
	s->inside = json_incref(inside);
	return 0;
}

/* The state was saved together with these pages. */
static bool state_belongs(const struct set *s)
{
	uint64_t bytes = 0, sum = 0;
	struct pages_header h;

	return pages_read(s->pages_fd, &h, sizeof(h), 0) == 0 &&
	       pages_file_sum(s->state_fd, PAGES_STATE_MAX, &bytes, &sum) == 0 && bytes == h.state_bytes &&
	       sum == h.state_sum;
}

static int check_pages(struct set *s, json_t *manifest, struct fault *f)
{
	json_t *pages = json_object_get(manifest, "pages");
	char message[256];
	struct pages_info info;
	struct stat st;

	if (fstat(s->state_fd, &st) < 0 || st.st_size != number_of(json_object_get(manifest, "state"), "bytes"))
		return damaged(s, f, "the device state is not as long as it was.");
	s->file_bytes = (uint64_t)st.st_size;
	if (pages_info(s->pages_fd, &info, message, sizeof(message)) < 0 ||
	    pages_verify(s->pages_fd, message, sizeof(message)) < 0)
		return damaged(s, f, message);
	if (!state_belongs(s))
		return damaged(s, f, "device state and memory do not belong together.");
	if ((int64_t)info.data_sum != number_of(pages, "sum") ||
	    info.ram_bytes != (uint64_t)s->cls.memory_mb << 20)
		return damaged(s, f, "memory and manifest do not belong together.");
	s->data_bytes = info.data_bytes;
	s->file_bytes += info.file_bytes;
	return 0;
}

static int check_disk(struct set *s, json_t *manifest, bool own, struct fault *f)
{
	char hash[DISK_HASH_SIZE];
	struct stat st;

	if (fstat(s->scratch_fd, &st) < 0)
		return set_fault(f, -errno, "the saved disk cannot be read", s->path);
	if (!own)
		return disk_unchanged(manifest, &st)
			       ? 0
			       : damaged(s, f, "its disk was written to since it was paused.");
	s->file_bytes += (uint64_t)st.st_blocks * 512;
	if (disk_hash(s->scratch_fd, hash) < 0 ||
	    strcmp(hash, text_of(json_object_get(manifest, "disk"), "sha256")) != 0)
		return damaged(s, f, "its disk is not what it was.");
	return 0;
}

/* The memory file that the pages lie on, checked by who has it open or now. */
static int open_base(struct set *s, const struct set_host *host, struct fault *f)
{
	char dir[BASE_PATH_MAX], snapshots[BASE_PATH_MAX - 80];
	struct snapshot snapshot;
	int err;

	if (host->ram_fd >= 0 && strcmp(host->base.key, s->base.key) == 0 &&
	    strcmp(host->base.ram, s->base.ram) == 0) {
		s->ram_fd = fcntl(host->ram_fd, F_DUPFD_CLOEXEC, 0);
		return s->ram_fd < 0 ? set_fault(f, -errno, "the warm snapshot cannot be opened", s->path) : 0;
	}
	snprintf(snapshots, sizeof(snapshots), "%s/snapshots", host->cache);
	err = base_find(snapshots, &s->base, dir, f);
	if (!err)
		err = snapshot_open(dir, &snapshot, f);
	if (err < 0)
		return err;
	s->ram_fd = fcntl(snapshot.ram_fd, F_DUPFD_CLOEXEC, 0);
	snapshot_close(&snapshot);
	return s->ram_fd < 0 ? set_fault(f, -errno, "the warm snapshot cannot be opened", dir) : 0;
}

static int open_image(struct set *s, const struct set_host *host, struct fault *f)
{
	char path[SET_PATH_MAX];

	if (strcmp(s->image, host->image) == 0) {
		s->rootfs_fd = fcntl(host->rootfs_fd, F_DUPFD_CLOEXEC, 0);
		return s->rootfs_fd < 0 ? set_fault(f, -errno, "the image cannot be opened", s->image) : 0;
	}
	snprintf(path, sizeof(path), "%s/images/%s/rootfs.ext4", host->cache, s->image);
	s->rootfs_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (s->rootfs_fd < 0)
		return fault_set(f, errno, 409, "snapshot_version",
				 "It was saved with the image %.32s, which is not in the cache any more (%s).", s->image,
				 strerror(errno));
	return 0;
}

int set_equip(struct set *s, const struct set_host *host, struct fault *f)
{
	int err = open_base(s, host, f);

	return err ? err : open_image(s, host, f);
}

static int file_open(struct set *s, const char *name, int *ret, struct fault *f)
{
	int err = set_file(s, name, O_RDONLY, ret, f);

	return err == -ENOENT ? damaged(s, f, "a file is missing.") : err;
}

static int set_check(struct set *s, const char *disk, const struct set_host *host, json_t *manifest,
		     struct fault *f)
{
	int err = facts_read(s, manifest, host, f);

	if (!err)
		err = file_open(s, "state", &s->state_fd, f);
	if (!err)
		err = file_open(s, "pages", &s->pages_fd, f);
	if (!err)
		err = check_pages(s, manifest, f);
	if (!err && !disk)
		err = file_open(s, "scratch.ext4", &s->scratch_fd, f);
	if (!err && disk) {
		s->scratch_fd = open(disk, O_RDWR | O_CLOEXEC);
		err = s->scratch_fd < 0 ? set_fault(f, -errno, "its disk cannot be opened", disk) : 0;
	}
	if (!err)
		err = check_disk(s, manifest, !disk, f);
	return err ? err : set_equip(s, host, f);
}

int set_open(const char *path, const char *disk, const struct set_host *host, struct set *ret, struct fault *f)
{
	struct set s = SET_NONE;
	json_t *manifest = manifest_load(path);
	int err;

	snprintf(s.path, sizeof(s.path), "%s", path);
	if (!manifest)
		return damaged(&s, f, "its manifest is missing or no JSON.");
	err = set_check(&s, disk, host, manifest, f);
	json_decref(manifest);
	if (err < 0) {
		set_close(&s);
		return err;
	}
	*ret = s;
	return 0;
}
