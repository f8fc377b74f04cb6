/* What carrel-vmm may ask of the host's kernel, thread by thread. Whoever takes the
 * monitor over has these calls and no other: anything else kills the process.
 *
 * Filters are entered one over the other, and what a call needs is the consent of all
 * that its thread has entered:
 *   FILTER_START  the process, before its owner's first request, and every thread that it
 *                 makes: all that any of them needs, to put a machine together as well
 *   FILTER_MAIN   the main thread, before the machine runs: serves its devices, saves it
 *   FILTER_VCPU   a vCPU's thread, before it is ever inside KVM_RUN
 * None lets a thread open a file, make a socket, start a program or map memory that can
 * be executed. Which thread may do what, and why: filter_rules.c.
 */
#ifndef CARREL_MACHINE_FILTER_H
#define CARREL_MACHINE_FILTER_H

#include <linux/filter.h>

enum filter { FILTER_START, FILTER_MAIN, FILTER_VCPU, FILTERS };

/* All of them, while everything is still allowed. 0 or a negative errno. */
int filters_build(void);
/* For the calling thread, which has no way back. 0 or a negative errno. */
int filter_enter(enum filter which);
/* As it was built, for tests. */
const struct sock_fprog *filter_program(enum filter which);

#endif
