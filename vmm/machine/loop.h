/* The main thread's event loop: epoll, one event a round.
 *
 * A callback runs on the thread in loop_run() with the bus lock held, so it may
 * touch devices. It may be called once more than there was reason to (a
 * descriptor number that was closed and given out again): reads must not block.
 * Every function but loop_stop() is for callbacks and for the time before
 * loop_run(); loop_stop() is for any thread.
 */
#ifndef CARREL_MACHINE_LOOP_H
#define CARREL_MACHINE_LOOP_H

#include <pthread.h>
#include <stdint.h>

struct loop;
typedef void loop_fn(void *arg, uint32_t events);

/* lock: the bus lock; it outlives the loop. */
int loop_new(pthread_mutex_t *lock, struct loop **ret);
/* NULL is legal. Watched descriptors stay their owners'. */
void loop_free(struct loop *l);

/* Adds or changes; level-triggered. events: EPOLLIN, EPOLLOUT, … */
int loop_watch(struct loop *l, int fd, uint32_t events, loop_fn *fn, void *arg);
/* Nothing happens where fd is not watched. Before its close(). */
void loop_unwatch(struct loop *l, int fd);

/* Until loop_stop(); negative errno: epoll itself failed. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l);

#endif
