/* What a kernel is made to do before anybody owns it, and the channel over which
 * it is asked: once before it is frozen into a snapshot, so that what a user does
 * first has run, the template's own code behind it; and once in each clone that
 * waits in the pool, because a clone starts without translated code.
 *
 * Requests leave no count, no history and, but for the template's, no name behind.
 * Hub thread only.
 */
#ifndef CARREL_WARMUP_H
#define CARREL_WARMUP_H

#include <stdint.h>

#include "link/channel.h"

enum warmup_kind { WARMUP_TEMPLATE, WARMUP_CLONE };

struct warmup;

/* Borrowed until warmup_new() returns. */
struct warmup_kernel {
	const char *language, *agent_id;
	const char *code; /* the template's own, which must not fail; NULL: none */
};

struct warmup_ops {
	/* The kernel's channel is there; the requests begin. Once. */
	void (*began)(void *arg);
	/* All were answered; message: why they could not be. Exactly once; may free it. */
	void (*over)(const char *message, void *arg);
};

/* received, sent: where the kernel's channel stands. NULL: out of memory. */
struct warmup *warmup_new(enum warmup_kind kind, const struct warmup_kernel *kernel, uint64_t received, uint64_t sent,
			  const struct warmup_ops *ops, void *arg);
/* Begins, and goes on after the link was cut. 0 or as channel_connect(): the link is down again. */
int warmup_attach(struct warmup *w, struct link *l);
/* Where the channel stands now. */
uint64_t warmup_received(const struct warmup *w);
uint64_t warmup_sent(const struct warmup *w);
/* Lets go of the channel; the kernel goes on. Accepts NULL. */
void warmup_free(struct warmup *w);

#endif
