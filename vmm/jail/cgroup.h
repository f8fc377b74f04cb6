/* One control group per sandbox: memory, CPU quota, processes, disk traffic, freezer.
 *
 * Works on version 1 (each controller mounted apart) and on version 2 (one
 * tree, processes only in leaves) behind one ops table. Groups lie at
 *     <own group, or the nearest ancestor that allows it>/NAME/ID
 * where NAME tells installations on one host apart. Layout of a sandbox:
 *     version 1: ID in each controller; QEMU alone in the freezer's
 *     version 2: ID with the limits, ID/keeper, ID/guest (which freezes)
 * so that a frozen sandbox still has a keeper that runs.
 *
 * Only carrel-spawn calls this. Functions return 0 or a negative errno. A
 * struct cgroup is plain data and is kept on disk for adoption.
 */
#ifndef CARREL_CGROUP_H
#define CARREL_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CGROUP_PATH_MAX = 384, CGROUP_NAME_MAX = 64 };

/* Version 2 uses the first directory only. */
enum cgroup_dir { CGROUP_MEMORY, CGROUP_CPU, CGROUP_CPUACCT, CGROUP_PIDS, CGROUP_FREEZER, CGROUP_IO, CGROUP_DIRS };

struct cgroup {
	uint32_t version; /* 1 or 2 */
	char dirs[CGROUP_DIRS][CGROUP_PATH_MAX];
};

struct cgroup_limits {
	uint64_t memory_bytes;
	unsigned cpu_milli;
	unsigned pids;
	/* Where the host has no controller for it, nothing is limited. */
	dev_t disk;
	uint64_t write_bytes_s, read_bytes_s; /* 0: not limited */
};

struct cgroup_usage {
	uint64_t memory_bytes;
	uint64_t cpu_usec;
};

/* Finds (and makes) the group all sandboxes of this installation lie in.
 * mountinfo and self_cgroup are the texts of /proc/self/mountinfo and
 * /proc/self/cgroup. On failure ret_message holds a sentence. */
int cgroup_base_find(struct cgroup *ret, const char *name, const char *mountinfo, const char *self_cgroup,
		     char *ret_message, size_t size);
/* The same from /proc. */
int cgroup_base_open(struct cgroup *ret, const char *name, char *ret_message, size_t size);
/* Removes the base when it is empty. */
void cgroup_base_remove(const struct cgroup *base);
/* The base that a sandbox's group lies in. */
struct cgroup cgroup_base_of(const struct cgroup *cg);
/* One that an earlier version noted may lack a hierarchy that has come to it since. */
bool cgroup_same(const struct cgroup *a, const struct cgroup *b);

/* The disk below a file system's device, which limits are for: a partition's whole disk. -ENODEV: it lies on none
 * (memory, network, file systems of several disks). */
int cgroup_disk_of(dev_t dev, dev_t *ret);

int cgroup_make(struct cgroup *ret, const struct cgroup *base, const char *id,
		const struct cgroup_limits *limits);
/* What is inside may make groups of its own below the guest's part: they belong to uid. On version 1 of the
 * controller for processes only, and beside it there is a group CGROUP_V1_WORK for memory that it may put
 * processes into, limited to work_bytes. The limits stay out of its reach. */
#define CGROUP_V1_WORK "work"
int cgroup_delegate(const struct cgroup *cg, uid_t uid, uint64_t work_bytes);
/* Moves the calling process into the keeper's part. */
int cgroup_enter(const struct cgroup *cg);
/* Descriptors (O_CLOEXEC) that outlive the loss of privilege. */
int cgroup_open_guest(const struct cgroup *cg);         /* cgroup.procs of QEMU's part */
int cgroup_open_thaw(const struct cgroup *cg);          /* takes cgroup_thaw_text() */
int cgroup_open_memory_events(const struct cgroup *cg); /* has a line "oom_kill N" */
const char *cgroup_thaw_text(const struct cgroup *cg);

/* Takes effect a little later: cgroup_frozen() tells. */
int cgroup_freeze(const struct cgroup *cg, bool on);
int cgroup_frozen(const struct cgroup *cg, bool *ret);
/* The one process in the part that freezes; -ESRCH: none, -EEXIST: several. */
int cgroup_guest_pid(const struct cgroup *cg, pid_t *ret);
int cgroup_usage(const struct cgroup *cg, struct cgroup_usage *ret);
/* SIGKILL to everything inside, frozen or not; true in *ret_empty when nothing was left. */
int cgroup_kill(const struct cgroup *cg, bool *ret_empty);
int cgroup_remove(const struct cgroup *cg);

#endif
