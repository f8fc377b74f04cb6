/* The agent as a whole: one libuv loop that owns every object below. Files are
 * read and written by libuv's threads (worker.h); nothing else leaves the loop.
 *
 * agent_main() is the program. In a guest it is process 1 and serves the virtio
 * port "carrel.agent". With --jail it is process 1 of namespaces on the host's own
 * kernel: clock, randomness and mounts are not its to change, and it serves a socket
 * that it inherits. With --socket it serves a unix socket instead, and
 * with --test it leaves the machine alone: no clock, names, mounts, cgroups or
 * disk reservation, and it says in its answers what it left out.
 */
#ifndef CARREL_AGENT_AGENT_H
#define CARREL_AGENT_AGENT_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

#include "limits.h"
#include "link/link.h"
#include "link/link_uv.h"

struct channel;
struct identity_change;
struct kernel;
struct parent;
struct process;
struct spec;

struct agent_options {
	const char *socket;  /* listen here; NULL: the virtio port */
	int listen_fd;       /* else here; -1: not */
	const char *run;     /* run-time files, default /run/carrel */
	const char *home;    /* the user's folder, default /home/user */
	const char *kernels; /* folders of kernelspecs, ':' between them */
	bool system;         /* may set names, cgroups, disk */
	bool own_kernel;     /* and clock, randomness, mounts: the machine is this sandbox's alone */
	uid_t uid;           /* whom code inside runs as */
	gid_t gid;
};

struct agent {
	uv_loop_t loop;
	struct agent_options opt;
	struct link *link;
	struct link_uv *binding;
	char boot_id[37];
	bool identified;
	json_t *env;                    /* of identity: names to strings */
	struct identity_change *change; /* while PUT /identity is under way */
	struct channel *events;
	LIST_HEAD(spec_list, spec) specs;
	LIST_HEAD(parent_list, parent) parents;
	LIST_HEAD(kernel_list, kernel) kernels;
	LIST_HEAD(process_list, process) processes;
	unsigned kernel_count, process_count;
};

int agent_main(int argc, char **argv);
/* Ends everything inside, syncs, and powers the guest off (as process 1) or exits. */
void agent_shutdown(struct agent *a);

#endif
