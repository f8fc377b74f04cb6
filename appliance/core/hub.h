/* The hub: one thread with one libuv loop that owns all mutable state of the
 * core. Other threads reach it by hub_post() and hub_call() only; everything
 * else here is for the hub's own thread.
 *
 * Items are embedded in their owner and never allocated, so posting cannot
 * fail. An item that is still queued when it is posted again runs once.
 */
#ifndef CARREL_HUB_H
#define CARREL_HUB_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "../fault.h"
#include "../store/store.h"

struct hub;

struct hub_item {
	struct hub_item *next;
	void (*fn)(void *arg);
	void *arg;
	bool queued;
};

/* Returns 0 or a negative errno. The loop exists, the thread does not run yet. */
int hub_new(struct hub **ret);
int hub_start(struct hub *h);
/* Ends and joins the thread; the hub's calls are the caller's thread's from then on. */
void hub_stop(struct hub *h);
/* Without the thread: runs what was posted. */
void hub_drain(struct hub *h);
/* Stops, runs what was posted, closes every handle, frees. Accepts NULL. */
void hub_free(struct hub *h);
uv_loop_t *hub_loop(struct hub *h);

/* Any thread: run fn(arg) on the hub. The item must live until fn starts. */
void hub_post(struct hub *h, struct hub_item *item, void (*fn)(void *arg), void *arg);
/* Hub thread: run fn(arg) at the end of this loop turn, after everything that arrived in it. */
void hub_turn_end(struct hub *h, struct hub_item *item, void (*fn)(void *arg), void *arg);
/* Hub thread: drop a queued turn-end item whose owner goes away. */
void hub_turn_cancel(struct hub *h, struct hub_item *item);

/* A closure that another thread waits for. Embed it, or use it on the stack. */
struct hub_call {
	struct hub_item item;
	void (*run)(struct hub_call *call); /* on the hub; ends now or later by hub_call_end() */
	char by[STORE_ID_MAX]; /* the key whose request it is, audit.h */
	uv_sem_t done;
	int err;
	struct fault fault; /* filled when err < 0 */
};

/* Not the hub's thread: runs run(call) there and blocks until hub_call_end(). */
int hub_call(struct hub *h, struct hub_call *call, void (*run)(struct hub_call *call));
/* Hub thread, exactly once a call; the call is gone afterwards. */
void hub_call_end(struct hub_call *call, int err);

/* A one-shot timer. The owner may free it at any time, also from its callback. */
struct hub_timer;
struct hub_timer *hub_timer_new(struct hub *h, void (*fn)(void *arg), void *arg);
void hub_timer_set(struct hub_timer *t, uint64_t ms);
void hub_timer_stop(struct hub_timer *t);
bool hub_timer_is_set(const struct hub_timer *t);
void hub_timer_free(struct hub_timer *t); /* accepts NULL */

/* Blocking work on libuv's pool, then done() on the hub. 0 or negative errno. */
int hub_work(struct hub *h, void (*work)(void *arg), void (*done)(void *arg), void *arg);

#endif
