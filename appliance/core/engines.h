/* The engines that sandboxes of this appliance run in: its own, which is what a
 * request without a name gets; the jail beside it, where the operator allows that
 * (setting allow-jail); and those that sandboxes of an earlier start run in still,
 * whatever may be asked for now.
 *
 * Each is one instance with a connection to carrel-spawn of its own. All are opened
 * before the hub runs and stay: lookups are legal on any thread.
 */
#ifndef CARREL_ENGINES_H
#define CARREL_ENGINES_H

#include "core_inner.h"

/* Opens the appliance's own as c->engine, and the jail where it is allowed and can run. */
int engines_open(struct core *c, struct fault *f);
/* The one that a row names, opened if it is not yet; c->engine where no engine has that name. Before the hub runs. */
int engines_recorded(struct core *c, const char *name, struct engine **ret, struct fault *f);
/* Nothing may use them any more. */
void engines_close(struct core *c);

/* What a request names; "auto": c->engine. NULL and `engine_unavailable`, with the setting that would change it. */
struct engine *engines_named(const struct core *c, const char *name, struct fault *f);
/* The line that binds a snapshot to it, engine_fingerprint(). */
const char *engines_fingerprint(const struct core *c, const struct engine *e);

#endif
