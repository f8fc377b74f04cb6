/* Files that are mostly holes: RAM and disks of sandboxes. All calls block: for
 * the pool's threads, never the hub's.
 */
#ifndef CARREL_DISK_H
#define CARREL_DISK_H

#include <sys/types.h>

#include "../fault.h"

enum { DISK_HASH_SIZE = 65 };

/* Copies data extents only, or none where the file system can share them; to gets
 * the same length and loses what it had. 0 or negative errno. */
int disk_copy_sparse(int from, int to);
/* SHA-256 over every data extent with its place, and the length. 0 or negative errno. */
int disk_hash(int fd, char ret[DISK_HASH_SIZE]);
/* An empty file system of disk_mb at path, as the guest expects it (label carrel-scratch). inodes: room for so many
 * new files, and a few more that whoever mounts it takes; 0: one for every 8 KiB. */
int disk_format(const char *path, unsigned disk_mb, unsigned inodes, struct fault *f);
/* Directory path and everything in it; one level of files is enough here. Missing: 0. */
int disk_remove_dir(const char *path);
/* 0 or negative errno: the directory's names are on disk. */
int disk_sync_dir(const char *path);

#endif
