/* --trace-steps: how long each step of a start takes, on stderr, as
 *     carrel-vmm: 5120 us, +310: devices
 * since the program began, and since the step before. Without the option nothing is
 * looked at. The main thread's.
 */
#ifndef CARREL_MACHINE_TRACE_H
#define CARREL_MACHINE_TRACE_H

/* Before the filters: it takes 10 ms to find out how fast the processor's counter runs. */
void trace_begin(void);
/* A step is over. */
void trace_step(const char *what);

#endif
