/* Copies the private pages of a frozen clone into a file (vmm/pages.h).
 *
 * Runs in a process of its own: reading guest memory and writing a disk take as
 * long as they take. It treats pages as opaque. QEMU may be hostile: where its
 * memory lies is what the kernel says of it, not what it says itself, and a
 * mapping that is not as the preload left it is refused. Before the first page
 * is read it has the rights of the service user, so that it can fill no more of
 * a disk than that user could.
 */
#ifndef CARREL_SPAWN_PAGES_COPY_H
#define CARREL_SPAWN_PAGES_COPY_H

#include <stdint.h>
#include <sys/types.h>

#include "vmm/jail/cgroup.h"
#include "vmm/spawn_proto.h"

enum {
	/* A frozen machine's threads stop at their next return to the kernel. */
	PAGES_FREEZE_MS = 5 * 1000,
	/* The largest class at 50 MB/s; below the engine's patience (VM_SAVE_MS). */
	PAGES_COPY_S = 100,
	/* vm.max_map_count of a host that has raised it once. */
	PAGES_MAPPINGS_MAX = 128 * 1024,
	/* Read and written at once: 1 MiB. */
	PAGES_CHUNK = 256,
};

struct pages_copy {
	struct cgroup cgroup;
	dev_t ram_dev; /* of the snapshot's memory file */
	ino_t ram_ino;
	int state_fd, pages_fd;
	uid_t uid;
	gid_t gid;
	pid_t parent; /* without it nobody waits for the answer */
};

/* 0, or a negative errno and a sentence in ret_message (SPAWN_MESSAGE_MAX); the file is empty then. */
int pages_copy(const struct pages_copy *c, char *ret_message);

#endif
