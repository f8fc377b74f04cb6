/* A paused machine into two files, and a machine out of them.
 *
 * The memory file is of the memory's size, and stays as it is while machines run
 * from it: each has it copy-on-write. State and memory are one set, together with the
 * writable disk as it was; keeping them together, fsync and rename are the owner's.
 */
#ifndef CARREL_SNAPSHOT_SNAPSHOT_H
#define CARREL_SNAPSHOT_SNAPSHOT_H

#include "vmm/machine/machine.h"

/* The files of a SNAPSHOT request are emptied and written, state last: STATE, and all of memory into MEMORY
 * or, of a machine that runs from a memory file, what differs from that into PAGES. The machine stays
 * paused, and may go on whatever came of it. -EINVAL: it is not paused, or has no memory file; -EBUSY:
 * MEMORY is the file this machine runs from. */
int snapshot_save(struct machine *m, const struct control_message *message, struct problem *p);

/* An empty machine goes on from the files STATE, MEMORY and PAGES of a START request, with the disks and
 * sockets it had: paused, with a new generation id. After an error it is fit for machine_free() only. */
int snapshot_load(struct machine *m, struct control_message *message, struct problem *p);

#endif
