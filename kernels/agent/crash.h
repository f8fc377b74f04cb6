/* Process 1's last words: a fault of the agent is a panic of the guest's kernel, which names no place.
 * One line on the console says which signal and where, as offsets that addr2line takes. */
#ifndef CARREL_AGENT_CRASH_H
#define CARREL_AGENT_CRASH_H

/* 0 or a negative errno. */
int crash_watch(void);

#endif
