/* How many clones start at the same time. Each has a CPU for itself while it comes
 * up, so more of them than there are CPUs make the first as late as the last; the
 * others wait in the order in which they came. Machines of the pool and boots, which
 * take a hundred times as long, do not queue here. Hub thread only.
 */
#ifndef CARREL_STARTS_H
#define CARREL_STARTS_H

#include "sandbox.h"

/* Starts its machine, now or in its turn. */
void starts_enter(struct sandbox *sb);
/* It is not being created any more, however that went. */
void starts_leave(struct sandbox *sb);

#endif
