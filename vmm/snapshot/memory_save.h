/* Guest memory into a file: of the memory's size, zero pages as holes. */
#ifndef CARREL_SNAPSHOT_MEMORY_SAVE_H
#define CARREL_SNAPSHOT_MEMORY_SAVE_H

#include "vmm/machine/memory.h"

/* fd is emptied first; it must not be the file the memory is mapped from (-EBUSY is the
 * caller's to say). vCPUs are parked, devices drained. */
int memory_save(const struct guest_memory *m, int fd);

#endif
