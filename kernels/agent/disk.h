/* A disk limit below the disk's size: a file of root's that takes the rest, by
 * reservation, without writing it. */
#ifndef CARREL_AGENT_DISK_H
#define CARREL_AGENT_DISK_H

#include <stdint.h>

struct agent;

/* disk_mb 0, or at least the disk: no limit. Negative errno; -ENOSPC when more
 * than that is in use already. */
int disk_limit(struct agent *a, uint64_t disk_mb);
/* Bytes taken by the limit. */
uint64_t disk_reserved(void);

#endif
