/* A client's JSON body into a jansson object: what is not plain, bounded UTF-8
 * JSON without repeated keys is refused. Knows nothing of fields (fields.h). */
#ifndef CARREL_FRONT_JSON_IN_H
#define CARREL_FRONT_JSON_IN_H

#include <jansson.h>
#include <stddef.h>

#include "../fault.h"

enum {
	JSON_IN_MAX = 1024 * 1024, /* reference v1 */
	JSON_IN_DEPTH_MAX = 32,    /* reference v1; jansson itself recurses to 2048 */
};

/* text need not end with NUL. Nothing but white space counts as {}. */
int json_in_parse(const char *text, size_t len, json_t **ret, struct fault *f);

#endif
