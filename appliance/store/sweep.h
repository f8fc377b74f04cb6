/* Retention: what is older than it is kept, or more than there is room for, goes,
 * oldest first: executions with outputs, events and spool, the audit, and
 * sandboxes that ended and have nothing left. Executions that wait or run are
 * never touched.
 *
 * A thread of its own looks for it, through a reader's connection, and hands
 * small transactions to the writer, so that a cell's commit waits for none but
 * the one that is under way. Pages that get free are used again: the file grows
 * to what history needs and no further.
 *
 * Nothing is left over by a crash at any point: an execution's row goes with a
 * note of its id, the note goes once its spool has gone, and a start begins with
 * the notes that are there.
 */
#ifndef CARREL_STORE_SWEEP_H
#define CARREL_STORE_SWEEP_H

#include "store.h"

struct sweep;

struct sweep_settings {
	unsigned days, mb; /* where an owner's quota says nothing else; mb: of all those owners together */
	unsigned every_s;
};

int sweep_start(struct store *s, const struct sweep_settings *settings, struct sweep **ret);
/* What is under way is finished. Accepts NULL. */
void sweep_stop(struct sweep *w);
/* One whole look, by the caller's thread: 0 or a negative errno. */
int sweep_once(struct store *s, const struct sweep_settings *settings);

#endif
