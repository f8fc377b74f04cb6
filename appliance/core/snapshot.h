/* A warm snapshot on disk: $CARREL_CACHE/snapshots/KEY/ with ram, state,
 * scratch.ext4 and manifest.json, which binds them by hashes to each other and to
 * image, engine and size class. All calls block: for the pool's threads.
 */
#ifndef CARREL_SNAPSHOT_H
#define CARREL_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "../../vmm/engine.h"
#include "../fault.h"
#include "image.h"

enum {
	/* Raised when what is in a snapshot changes its meaning: warm-up, channels. */
	SNAPSHOT_VERSION = 1,
	SNAPSHOT_PATH_MAX = 640,
	/* Kernels that a template's own code was run in, besides the default one. */
	SNAPSHOT_WARM_MAX = 8,
};

/* Where the channel of a language's default kernel stands. */
struct snapshot_channel {
	char language[64];
	uint64_t received, sent;
};

struct snapshot {
	char path[SNAPSHOT_PATH_MAX]; /* of the directory */
	struct vm_class cls;
	uint64_t received, sent; /* where the default kernel's channel stands */
	struct snapshot_channel warm[SNAPSHOT_WARM_MAX]; /* those of other kernels that ran something */
	unsigned warm_count;
	char ram_hash[65];       /* of its memory: which of those made under this key it is */
	int ram_fd, state_fd, scratch_fd;
	ino_t replaces; /* while it is made: the directory that is there and of no use, or 0 */
	int lock_fd; /* while it is made: tells other appliances on this cache that somebody is at work */
	struct stat ram_stat, state_stat, scratch_stat; /* as they were when the hashes were checked */
};

/* KEY of a snapshot: everything that it depends on. */
void snapshot_key(const struct image *image, const char *fingerprint, const struct vm_class *cls,
		  char ret[65]);
/* Opens and checks all hashes. -ENOENT: there is none; another error with a sentence: it is of no use. */
int snapshot_open(const char *path, struct snapshot *ret, struct fault *f);
/* Cheap: the files are still those that were checked. */
bool snapshot_unchanged(const struct snapshot *s);
void snapshot_close(struct snapshot *s);

/* A snapshot being made: files in a temporary directory next to its place. */
/* Opens ram (sized, empty), state and scratch read-write into ret; path: the final one. */
int snapshot_begin(const char *path, const struct image *image, const struct vm_class *cls,
		   struct snapshot *ret, struct fault *f);
/* Hashes, syncs, writes the manifest, renames into place (an older one is put aside, see base.h), syncs the
 * directory. Where another appliance has put one there meanwhile, that one becomes s: what was cloned from it
 * stays whole. */
int snapshot_seal(struct snapshot *s, const char *path, const char *fingerprint, const struct image *image,
		  struct fault *f);
/* Gives up: files and directory go. */
void snapshot_drop(struct snapshot *s);
/* Removes what a crash left half made and nobody works on, and snapshots whose image is gone or that were put
 * aside, unless they are pinned (base.h). */
void snapshot_sweep(const char *snapshots_dir, const char *images_dir);

/* A scratch disk at path: copied from from_fd, or formatted (disk.h) when from_fd < 0. ret_fd read-write. */
int scratch_make(const char *path, int from_fd, unsigned disk_mb, unsigned inodes, int *ret_fd, struct fault *f);

#endif
