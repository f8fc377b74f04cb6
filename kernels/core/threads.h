/* Threads of the kernel's own: they take no signal, so that an interrupt
 * always reaches the thread that runs the user's code. */
#ifndef CARREL_THREADS_H
#define CARREL_THREADS_H

#include <pthread.h>

/* -errno. The name shows in /proc and must be under 16 characters. policy:
 * SCHED_OTHER, or SCHED_BATCH for a thread that does not run in front of the
 * user's code when it is woken by it, only beside it. */
int thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg, int policy);

/* One that runs the user's code: no signal is blocked, as children inherit that,
 * and the stack is the system's usual. */
int thread_start_user(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg);

#endif
