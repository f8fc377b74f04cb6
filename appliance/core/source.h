/* A saved set, opened, that new sandboxes are started from: a fork's, or a named
 * snapshot's. Shared by them until each of them runs or failed; the last to leave
 * closes it, and removes a fork's files. Hub thread only, but for source_new().
 */
#ifndef CARREL_SOURCE_H
#define CARREL_SOURCE_H

#include "set.h"

struct source {
	unsigned refs;
	const char *started; /* as a sandbox shows it: "fork", "snapshot" */
	bool temporary;      /* its files go with it */
	struct engine *engine; /* that saved it, and starts it */
	struct set set;
};

/* Takes over the set; NULL: out of memory, the set stays the caller's. */
struct source *source_new(struct engine *engine, const struct set *set, const char *started, bool temporary);
struct source *source_ref(struct source *s);
void source_unref(struct source *s); /* accepts NULL */

#endif
