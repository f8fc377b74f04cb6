/* Ends that the disk did not take: kept here and written again every
 * UNSTORED_RETRY_MS until they are stored. Meanwhile readers of rows are shown
 * them (store_known_set). There are never more than the sandboxes and cells that
 * ran when the disk was full: without a disk nothing new starts.
 *
 * Hub thread only. A stop of carreld tries once more; what then is not stored is
 * found unfinished by the next start.
 */
#ifndef CARREL_UNSTORED_H
#define CARREL_UNSTORED_H

#include "hub.h"

enum {
	/* Space comes back when a person, or another program, makes some. */
	UNSTORED_RETRY_MS = 2000,
};

struct core;
struct execution;
struct sandbox;

struct unstored;

/* Embedded in what ended. */
struct unstored_end {
	struct hub_item item;
	struct unstored_end *next;
	struct core *core;
	struct execution *execution; /* or */
	struct sandbox *sandbox;
	bool under_way, told;
	int err;
	char message[256];
};

int unstored_new(struct core *c, struct unstored **ret);
/* Takes over the reference to an execution that ended and was not stored because of err. */
void unstored_execution(struct execution *e, int err);
/* Takes over a sandbox that ended; only its record is left. */
void unstored_sandbox(struct sandbox *sb);
/* At the core's stop, without the hub's thread: what is due is submitted a last time. */
void unstored_submit(struct core *c);
/* Accepts NULL. Nothing is under way any more. */
void unstored_free(struct unstored *u);

#endif
