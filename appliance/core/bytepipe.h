/* A bounded byte pipe between a worker thread (blocking) and the hub (never
 * blocking): bodies of files, NDJSON of processes.
 *
 * Two references, one a side; each side closes its own. Closing with an error
 * hands a struct fault to the other side.
 */
#ifndef CARREL_BYTEPIPE_H
#define CARREL_BYTEPIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../fault.h"

enum { BYTEPIPE_MAX = 256 * 1024 };

struct bytepipe;

struct bytepipe *bytepipe_new(void);

/* Worker side. fd becomes readable when read/write can go on. poll_fd: a
 * connection whose hang-up ends the wait with -EPIPE, or -1. */
ssize_t bytepipe_read(struct bytepipe *p, void *buf, size_t size, int poll_fd, int timeout_ms); /* 0: end; -ETIMEDOUT */
int bytepipe_write(struct bytepipe *p, const void *buf, size_t len, int poll_fd, int timeout_ms);
/* fault NULL: a clean end. Drops the worker's reference. */
void bytepipe_worker_close(struct bytepipe *p, const struct fault *fault);
/* After read() gave 0 or write() failed: the hub's fault, if it closed with one. */
bool bytepipe_fault(struct bytepipe *p, struct fault *ret);

/* Hub side. changed() is called on the worker's thread: post to the loop. */
void bytepipe_on_change(struct bytepipe *p, void (*changed)(void *arg), void *arg);
size_t bytepipe_hub_write(struct bytepipe *p, const void *buf, size_t len); /* bytes taken */
ssize_t bytepipe_hub_read(struct bytepipe *p, void *buf, size_t size);      /* 0: nothing now; -ENODATA: ended; -EPIPE: worker gave up */
bool bytepipe_worker_gone(struct bytepipe *p);
void bytepipe_hub_close(struct bytepipe *p, const struct fault *fault);

#endif
