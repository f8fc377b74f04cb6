/* The machine's state outside of its vCPUs and virtio devices: timer, clock,
 * interrupt chips, serial port. vCPUs are parked. */
#ifndef CARREL_SNAPSHOT_VM_SAVE_H
#define CARREL_SNAPSHOT_VM_SAVE_H

#include "state.h"

/* After devices are drained: an interrupt of theirs is in a chip by then. */
int vm_save(const struct machine *m, struct state_vm *ret, struct problem *p);
/* Before devices are loaded, which raise their pending interrupts. */
int vm_load(struct machine *m, const struct state_vm *s, struct problem *p);

#endif
