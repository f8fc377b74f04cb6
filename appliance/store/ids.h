/* Names of things: a prefix and random characters, never reused, never guessable.
 *
 * The result has only [a-z0-9-], so it can stand in a path, a host name and a
 * cgroup name. 20 base32 characters are 100 random bits.
 */
#ifndef CARREL_IDS_H
#define CARREL_IDS_H

#include <stdbool.h>
#include <stddef.h>

#include "store.h"

/* prefix: at most 18 characters of [a-z0-9], without the hyphen: "sbx", "krn", "exe", "own", "key". */
void id_new(const char *prefix, char ret[STORE_ID_MAX]);
/* True for a non-empty name of [a-z0-9-] that fits; everything that becomes a path is asked first. */
bool id_valid(const char *id);
/* Fills buf from the kernel's random source; aborts if there is none, since nothing could go on safely. */
void random_fill(void *buf, size_t len);

#endif
