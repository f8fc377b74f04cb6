/* Whether another sandbox may start: the owner's quota, and memory and disk of
 * the host, both counted in full, so that what was granted can also be used. */
#ifndef CARREL_ADMISSION_H
#define CARREL_ADMISSION_H

#include "sandbox.h"

/* Seconds after which a refused client may try again. */
enum { ADMISSION_RETRY_S = 5 };

/* 0, or 429 `quota`, 503 `capacity`, 400 for what this host can never give. */
int admission_check(const struct core *c, const struct sandbox_waiter *w, const struct vm_class *cls,
		    struct fault *f);
/* Megabytes of RAM granted now, builds included. */
unsigned admission_memory_used_mb(const struct core *c);
/* The host's default for settings.memory_mb = 0. */
unsigned admission_host_memory_mb(void);

#endif
