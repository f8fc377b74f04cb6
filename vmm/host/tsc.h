/* The frequency of this host's time stamp counter, which a guest in software
 * emulation reads as it is. */
#ifndef CARREL_TSC_H
#define CARREL_TSC_H

/* In kHz, measured once per process against CLOCK_MONOTONIC_RAW; the first
 * call takes 100 ms. 0 when the counter does not move. */
unsigned tsc_khz(void);

#endif
