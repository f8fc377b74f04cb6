/* Work that may wait for a disk, on libuv's threads, which nothing else uses. */
#ifndef CARREL_AGENT_WORKER_H
#define CARREL_AGENT_WORKER_H

#include <stdbool.h>

struct agent;

/* work(arg) runs on a thread: with as_user, with the file rights of the user
 * and no more (file-system ids and no capability); otherwise as root. done(arg)
 * follows in the loop. */
void worker_run(struct agent *a, bool as_user, void (*work)(void *arg), void (*done)(void *arg), void *arg);

#endif
