/* Where what runs inside the guest is accounted (cgroup v2):
 *
 *   /sys/fs/cgroup/carrel      the agent and the prepared parents, favoured
 *   /sys/fs/cgroup/work        everything else, limited
 *   /sys/fs/cgroup/work/NAME   one leaf for each kernel and each process
 *
 * On a host of version 1 a jail has its controller for processes alone; the memory of its
 * work is limited as a whole, from outside.
 *
 * With opt.system false there are none: leaves exist as objects, their procs
 * file is /dev/null, and kills go by process group instead.
 */
#ifndef CARREL_AGENT_CGROUP_H
#define CARREL_AGENT_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* On a host of version 1, files of the group that all work's memory is limited in. */
#define CGROUP_V1_MEMORY "/sys/fs/memory.oom_control"
#define CGROUP_V1_MEMORY_PROCS "/sys/fs/memory.procs"

struct agent;
struct leaf;

/* Makes the two groups and moves this process into the first. Negative errno. */
int cgroup_start(struct agent *a);
/* Limits of all work: memory_mb less what the agent, the parents and the guest's
 * kernel hold. 0 takes the default: all there is. */
int cgroup_limit(struct agent *a, uint64_t memory_mb, uint64_t pids);

int leaf_new(struct agent *a, const char *name, struct leaf **ret);
/* The leaf goes when nothing runs in it any more. Accepts NULL. */
void leaf_free(struct leaf *leaf);
/* Its cgroup.procs, open for writing; belongs to the leaf. */
int leaf_procs(const struct leaf *leaf);
/* Kills everything in it, what left its process group too. */
void leaf_kill(const struct leaf *leaf);
/* True when the out-of-memory killer struck in it since this was last asked. Where it strikes on and on
 * (OOM_STORM_KILLS), all that runs in the leaf is killed. */
bool leaf_oom(struct leaf *leaf);

/* Of what is not to outlive the agent when memory runs out. */
int cgroup_oom_score(const struct agent *a);

/* Told of by poll; -ENOENT: nobody tells, its count has to be looked at. */
int cgroup_open_memory_events(void);

/* Every process of the work that runs now; the first error ends it. */
int cgroup_work_each(const struct agent *a, int (*each)(pid_t pid, void *arg), void *arg);

/* One number of a file of the work group: the whole file, or the word after key. 0 when there is none. */
uint64_t cgroup_work_number(const struct agent *a, const char *file, const char *key);

#endif
