/* A request's target, "/v1/sandboxes/sb_1/files?path=a%20b", taken apart.
 *
 * Segments are split before they are decoded, so an encoded slash stays part of
 * its segment. Every string is UTF-8 without NUL and lives until target_free().
 */
#ifndef CARREL_FRONT_TARGET_H
#define CARREL_FRONT_TARGET_H

#include <stdint.h>

#include "../fault.h"

enum {
	TARGET_LEN_MAX = 16 * 1024, /* a path of PATH_MAX bytes, each one escaped, fits */
	TARGET_SEGMENTS_MAX = 8,    /* the longest route has 6 */
	TARGET_QUERY_MAX = 32,      /* known parameters are few, unknown ones are ignored */
};

struct query_item {
	const char *name, *value;
};

struct target {
	char *text; /* owned: all decoded strings */
	const char *segments[TARGET_SEGMENTS_MAX];
	unsigned segment_count;
	struct query_item query[TARGET_QUERY_MAX];
	unsigned query_count;
};

int target_parse(const char *uri, struct target *ret, struct fault *f);
void target_free(struct target *t);

/* A parameter's value, or NULL when it is absent. Given twice: a fault. */
int target_query(const struct target *t, const char *name, const char **ret, struct fault *f);
/* A whole decimal number from min to max; absent: fallback. */
int target_query_number(const struct target *t, const char *name, uint64_t min, uint64_t max,
			uint64_t fallback, uint64_t *ret, struct fault *f);

#endif
