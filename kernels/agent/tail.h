/* The last bytes of a stream of any length. */
#ifndef CARREL_AGENT_TAIL_H
#define CARREL_AGENT_TAIL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"

struct tail {
	uint64_t total;
	char bytes[KERNEL_CRASH_MAX]; /* byte n of the stream is at n % size */
};

void tail_add(struct tail *t, const char *bytes, size_t len);
void tail_clear(struct tail *t);
/* As a JSON string, from the start of a line where earlier bytes are gone;
 * NULL when there is nothing. */
json_t *tail_json(const struct tail *t);

/* Any bytes as a JSON string: what is not UTF-8, and NUL, becomes U+FFFD. */
json_t *text_json(const char *bytes, size_t len);

#endif
