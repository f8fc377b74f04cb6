/* The engine jail's own steps, which jail.c lists: the sandbox's root, its
 * namespaces and its user. The agent is process 1 in there, on the host's kernel.
 *
 * Mount, PID and control group namespaces are its own; network, IPC and UTS are
 * those that carrel-spawn gave its keeper. All of them belong to the host's user
 * namespace, not to the sandbox's: whatever capability somebody inside may come to,
 * it holds over the sandbox's files and processes only, never over a mount, a
 * device, an address or a name.
 *
 * The mounts lie below JAIL_BASE, in the keeper's namespace; process 1 has a copy.
 * Nothing is left when the last of both is gone: loop device and file systems end
 * with their mounts.
 *
 * Each step returns 0, or -1 and errno.
 */
#ifndef CARREL_SPACE_H
#define CARREL_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct jail;

struct space {
	const char *id;              /* its host name */
	unsigned memory_mb;          /* half of it may be files in memory (/dev/shm) */
	uid_t base;                  /* of JAIL_SPACE_UIDS users and groups */
	int user_fd;                 /* its user namespace */
	int rootfs_fd, guest_fd;     /* mounts of their own, nowhere attached: of carrel-spawn */
	int disk_fd;                 /* ext4, empty; reading and writing */
	bool read_only;              /* its root, but for what programs work in */
	/* Version 1: the directories of its groups; "": version 2. */
	const char *pids_group, *memory_group;
};

/* Any directory that every host has: the new root is put together on top of it. */
#define JAIL_BASE "/tmp"

/* A user namespace in which 0 is base. Its descriptor, or a negative errno. */
int space_user_make(uid_t base);

/* The keeper, in order. */
int space_image(const struct jail *jail);
int space_disk(const struct jail *jail);
int space_overlay(const struct jail *jail);
int space_dev(const struct jail *jail);
int space_run(const struct jail *jail);
int space_sys(const struct jail *jail);
int space_groups(const struct jail *jail);
int space_loopback(const struct jail *jail);
int space_leave(const struct jail *jail);

/* Process 1, in order; after jail.c's pivot the root lies at /root. space_enter.c */
int space_cgroup(const struct jail *jail);
int space_proc(const struct jail *jail);
int space_score(const struct jail *jail);
int space_favour(const struct jail *jail);
int space_mask(const struct jail *jail);
int space_names(const struct jail *jail);
int space_read_only(const struct jail *jail);
int space_root(const struct jail *jail);
int space_user(const struct jail *jail);
int space_capabilities(const struct jail *jail);

#endif
