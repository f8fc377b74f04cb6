/* Whether another sandbox may start: the owner's quota, and memory, disk and CPUs
 * of the host. Memory and disk are counted in full, so that what was granted can
 * also be used; CPUs are shared, so each counts several times. */
#ifndef CARREL_ADMISSION_H
#define CARREL_ADMISSION_H

#include "sandbox.h"

/* Seconds after which a refused client may try again. */
enum { ADMISSION_RETRY_S = 5 };
/* Less free space than this is a full disk: a guest's write that does not fit fails as a
 * whole, and such a write may be of some megabytes. */
enum { ADMISSION_DISK_FULL_MB = 16 };

/* 0, or 429 `quota`, 503 `capacity`, 400 for what this host can never give. */
int admission_room(const struct core *c, const struct engine *e, const char *owner, unsigned quota,
		   const struct vm_class *cls, double cpus, struct fault *f);
/* Room for a machine more beside everything there is, the pool's included: what
 * the pool holds is no reason to refuse a sandbox, it is given up for it. */
bool admission_fits(const struct core *c, const struct engine *e, const struct vm_class *cls);
/* For a paused one that is to run again: its disk is counted already. */
int admission_wake(const struct sandbox *sb, unsigned quota, struct fault *f);
/* The disk that holds state and sandboxes takes no more. */
bool admission_disk_full(const struct core *c);
/* Megabytes of RAM granted now, builds included, the pool not. */
unsigned admission_memory_used_mb(const struct core *c);
/* CPUs that sandboxes may have together, and have now. */
double admission_cpus(const struct core *c);
double admission_cpus_used(const struct core *c);
/* The host's default for settings.memory_mb = 0. */
unsigned admission_host_memory_mb(void);

#endif
