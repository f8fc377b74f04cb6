/* What a kernel is made to do once before it is frozen: what a user does first.
 * Silent requests: no count, no history, no name is left behind. */
#ifndef CARREL_WARMUP_H
#define CARREL_WARMUP_H

#include <jansson.h>

enum { WARMUP_REQUESTS = 4 };

/* The n-th request (0 ..): its type and, as a new reference, its content. */
json_t *warmup_request(unsigned n, const char **ret_type);

#endif
