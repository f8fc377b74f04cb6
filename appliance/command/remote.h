/* Files between here and a sandbox, streamed in both directions. */
#ifndef CARREL_REMOTE_H
#define CARREL_REMOTE_H

#include "command.h"

/* local: a path, or "-" for stdin. remote: a path there; empty or ending in "/"
 * takes the local name, as does a directory. size: bytes sent, may be NULL. */
int remote_put(struct command *c, const char *id, const char *local, const char *remote, int64_t *ret_size);
/* local: a path, a directory (takes the remote name), or "-" for stdout. The
 * file appears whole or not at all. */
int remote_get(struct command *c, const char *id, const char *remote, const char *local, int64_t *ret_size);
/* What follows the last slash. */
const char *base_name(const char *path);

#endif
