/* The limits of one sandbox, by the rows of kernels/link/limits.def: a further limit is a row there, and whoever
 * holds it. A value of 0 was not set.
 *
 * Plain data, no thread of its own.
 */
#ifndef CARREL_LIMITS_H
#define CARREL_LIMITS_H

#include <jansson.h>
#include <stdbool.h>

#define LIMIT_WHOLE unsigned
#define LIMIT_NUMBER double

struct limits {
#define LIMIT(name, type, ...) LIMIT_##type name;
#include "link/limits.def"
#undef LIMIT
};

/* What was not set is the recipe's ("limits" of its template.json, may be NULL), else what is usual, where that is
 * always shown. */
void limits_fill(struct limits *l, json_t *recipe);
/* As a row keeps it. What is not there becomes 0. */
void limits_read(struct limits *l, json_t *stored);
/* As rows keep and the REST face shows it; a new reference. */
json_t *limits_json(const struct limits *l);
/* What the agent is told, the usual for what was not set; a new reference. */
json_t *limits_inside(const struct limits *l);
/* The name of a limit that was set and is not among those that an agent holds ("limits" of its answer); NULL: there
 * is none. */
const char *limits_unheld(const struct limits *l, json_t *held);
/* True: the agent is told the same for both. */
bool limits_inside_same(const struct limits *a, const struct limits *b);

#endif
