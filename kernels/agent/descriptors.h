/* How many descriptors each process of the work inside may have: RLIMIT_NOFILE, which nobody who is not root
 * can raise again. */
#ifndef CARREL_AGENT_DESCRIPTORS_H
#define CARREL_AGENT_DESCRIPTORS_H

#include <stdint.h>
#include <sys/resource.h>

struct agent;

/* For what is started from now on, and for the kernels that run (no user's code has run yet, or what it started
 * has the limit already). 0: the usual. Negative errno. */
int descriptors_limit(struct agent *a, uint64_t most);
/* What was asked for, or what the host gives at most; 0: nothing was. */
uint64_t descriptors_asked(void);
/* For a process that is being started. */
struct rlimit descriptors_rlimit(void);

#endif
