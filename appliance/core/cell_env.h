/* Environment variables for one cell of a Python or Bash kernel: silent requests
 * around it, which leave no name, no history and no count behind.
 *
 * For Python the values travel as base64 of JSON inside a literal, so no quoting is
 * needed and none can be broken; for Bash they stand in single quotes, and what is
 * no name of a variable there is left out.
 */
#ifndef CARREL_CELL_ENV_H
#define CARREL_CELL_ENV_H

#include <jansson.h>

/* Contents of two execute_requests; new references, NULL: out of memory. */
json_t *cell_env_set(json_t *env, const char *language);
json_t *cell_env_restore(const char *language);

#endif
