/* The files of one saved sandbox: DIR/state, DIR/pages, DIR/manifest.json, and for
 * what is to be started more than once DIR/scratch.ext4, all 0600. A paused
 * sandbox's disk stays where it is; the manifest tells by its times whether
 * anything wrote into it since.
 *
 * The manifest binds them: sizes and sums, warm snapshot, image, engine, size class,
 * and what the host must know of the kernels inside. Files are written into a
 * temporary directory beside the final one, synced, and renamed with it; a
 * directory under its final name is complete.
 *
 * All calls block: for the pool's threads or a worker's, set_intact(), set_close()
 * and set_remove() also for the hub's.
 */
#ifndef CARREL_SET_H
#define CARREL_SET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../vmm/engine.h"
#include "../fault.h"
#include "base.h"

enum {
	SET_VERSION = 1, /* of the manifest, and of what kernels and agent keep in a saved memory */
	SET_PATH_MAX = 512,
	SET_FINGERPRINT_MAX = 512,
};

#define SET_MAKING ".making-" /* before the name of a directory that is not complete */

struct set {
	char path[SET_PATH_MAX]; /* of the directory, as it is now */
	struct vm_class cls;
	struct base base;
	char image[72], fingerprint[SET_FINGERPRINT_MAX];
	json_t *inside;                      /* {"kernels":[…],"processes":[ID]}, see kernel_state.c */
	int state_fd, pages_fd, scratch_fd;  /* -1: not open */
	int ram_fd, rootfs_fd;               /* set_open(): what a machine needs besides */
	uint64_t file_bytes, data_bytes;     /* on disk in all but a paused sandbox's disk; private memory in it */
};

/* What set_open() checks against. */
struct set_host {
	const char *cache, *fingerprint;
	char image[72];
	int rootfs_fd;      /* of that image; borrowed */
	struct base base;   /* one that was checked already, */
	int ram_fd;         /* and its memory file, borrowed; -1: none */
};

#define SET_NONE { .state_fd = -1, .pages_fd = -1, .scratch_fd = -1, .ram_fd = -1, .rootfs_fd = -1 }

/* A temporary directory beside path, with state and pages open and empty. */
int set_begin(const char *path, struct set *ret, struct fault *f);
/* The disk as it is now into the set. */
int set_add_disk(struct set *s, int from_fd, struct fault *f);
/* The files of a paused sandbox's set and its disk into this one. */
int set_copy(struct set *s, const struct set *from, struct fault *f);
/* Syncs, writes the manifest, gives the directory the name path (what was there goes).
 * disk: the paused sandbox's, NULL: the set has its own. extra: more members, borrowed, may be NULL. */
int set_seal(struct set *s, const char *path, const char *disk, json_t *extra, struct fault *f);
/* Opens a sealed one and checks everything in it, and what it lies on. disk as above;
 * the set's scratch_fd is then that file. 409 or 500 with a sentence. */
int set_open(const char *path, const char *disk, const struct set_host *host, struct set *ret, struct fault *f);
/* What a machine needs besides the set's own files. */
int set_equip(struct set *s, const struct set_host *host, struct fault *f);
/* Cheap: a sealed set is there, and nothing wrote into the disk since. */
bool set_intact(const char *path, const char *disk);
/* The warm snapshot that the manifest at path names; false: no manifest. */
bool set_base(const char *path, struct base *ret);
/* Closes what is open; the files stay. */
void set_close(struct set *s);
/* Closes, and the directory goes. */
void set_drop(struct set *s);
/* A sealed or half-made directory, if it is there; its pin too. */
void set_remove(const char *path, const char *snapshots_dir, const char *pin);

#endif
