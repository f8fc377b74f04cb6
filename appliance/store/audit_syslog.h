/* The audit to syslog: each row as one JSON message of facility authpriv, in order.
 *
 * A thread of its own follows the table, so that a syslog daemon that is slow or
 * away holds up nobody. Where it stands is kept in the store: over a restart no
 * row is left out (after a crash the last ones may be sent twice).
 */
#ifndef CARREL_STORE_AUDIT_SYSLOG_H
#define CARREL_STORE_AUDIT_SYSLOG_H

#include "store.h"

struct audit_syslog;

/* path: the daemon's socket, as /dev/log; it need not be there yet. 0 or a negative errno. */
int audit_syslog_start(struct store *s, const char *path, struct audit_syslog **ret);
/* What is committed by then is sent first, if the daemon takes it. Accepts NULL. */
void audit_syslog_stop(struct audit_syslog *a);

#endif
