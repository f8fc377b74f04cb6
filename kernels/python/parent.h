/* The prepared parent: warm, without threads and ZeroMQ; forks every kernel.
 *
 * Speaks the packets of kernels/agent/PROTOCOL.md ("Prepared parents") on
 * descriptor 3 and ends when that is closed.
 */
#ifndef CARREL_PARENT_H
#define CARREL_PARENT_H

#include <sys/types.h>
#include "python/lang.h"

enum {
	PARENT_FD = 3,
	/* One packet; larger ones are refused. */
	PARENT_PACKET_MAX = 128 * 1024,
	/* Kernels alive at once; the agent allows fewer. */
	PARENT_CHILDREN_MAX = 64,
	/* Who kernels run as when the parent was started by root. */
	PARENT_UID = 1000,
	PARENT_GID = 1000,
};

/* What a fork packet asks for. Descriptors are -1 when none came. */
struct fork_request {
	struct json_t *packet;
	int stderr_fd;
	int cgroup_fd;
};

/* The exit code of the program. */
int parent_main(void);
/* In the child of fork(): become the kernel. Never returns. */
void child_main(struct python *py, const struct fork_request *f, int ready_fd) __attribute__((noreturn));

#endif
