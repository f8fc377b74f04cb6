/* The way into the jail, as flat lists of steps that read from top to bottom.
 *
 * Who runs what, in this order, in a process that carrel-spawn started in new
 * PID, mount, network, IPC and UTS namespaces:
 *   1. jail_build()       the keeper, as root: a root with QEMU's files only, or carrel-vmm alone, or,
 *                         for the engine jail, the sandbox's own with its image and its disk
 *   2. jail_enter_guest() the child that becomes one of them: no privilege is left. For the engine jail
 *                         it is process 1 of a PID namespace, and has a mount namespace, of its own
 *   3. jail_close()       the keeper, once its main loop runs: empties the
 *                         root and gives up the keeper's own privilege
 * No byte of a guest is read before step 2 is complete, and by the keeper
 * (console, bounded) not before step 3 unless the start fails.
 *
 * Each returns 0, or a negative errno and a sentence in ret_message that names
 * the step; the caller must end the process then.
 */
#ifndef CARREL_JAIL_H
#define CARREL_JAIL_H

#include <stddef.h>
#include <sys/types.h>

#include "space.h"

/* Of what runs inside; bits, so that a step can name those that take it. */
enum jail_kind {
	JAIL_QEMU = 1,
	JAIL_VMM = 2,   /* carrel-vmm */
	JAIL_SPACE = 4, /* the engine jail: the agent itself, on the host's kernel (space.h) */
};

struct jail {
	enum jail_kind kind;
	const char *preload; /* JAIL_QEMU: copied into the root as JAIL_PRELOAD, beside /usr */
	const char *program; /* JAIL_VMM: the one file of the root, JAIL_PROGRAM; static */
	uid_t guest_uid, keeper_uid;
	int guest_cgroup_fd; /* cgroup.procs the guest moves into */
	int log_fd;          /* becomes the guest's stdout and stderr */
	struct space space;  /* JAIL_SPACE */
};

#define JAIL_PRELOAD "/carrel-preload.so"
#define JAIL_PROGRAM "/carrel-vmm"

int jail_build(const struct jail *jail, char *ret_message, size_t size);
int jail_enter_guest(const struct jail *jail, char *ret_message, size_t size);
int jail_close(const struct jail *jail, char *ret_message, size_t size);

#endif
