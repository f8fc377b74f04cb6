/* Who asks: the key of a request to its owner. */
#ifndef CARREL_FRONT_AUTH_H
#define CARREL_FRONT_AUTH_H

#include "request.h"

enum { AUTH_KEY_MAX = 128 }; /* e2b_ and 40 hex digits, with room */

/* Fills r->owner and r->admin. -EACCES with a 401 (403 where an admin key is asked for). */
int auth_check(struct request *r, struct fault *f);

#endif
