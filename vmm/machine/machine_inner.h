/* Between the machine's own files. */
#ifndef CARREL_MACHINE_MACHINE_INNER_H
#define CARREL_MACHINE_MACHINE_INNER_H

#include "machine.h"

/* The first end counts. The caller holds the bus lock. */
void machine_end(struct machine *m, enum machine_end end);

/* Devices on the bus, their interrupts at KVM; takes the files it keeps. */
int machine_devices(struct machine *m, struct control_message *message, struct problem *p);
void machine_devices_free(struct machine *m);

#endif
