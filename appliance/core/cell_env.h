/* Environment variables for one cell of a Python kernel: silent requests around it.
 *
 * The values travel as base64 of JSON inside a literal, so no quoting is needed
 * and none can be broken; the code runs in a namespace of its own and leaves no
 * name, no history and no count behind.
 */
#ifndef CARREL_CELL_ENV_H
#define CARREL_CELL_ENV_H

#include <jansson.h>

/* Contents of two execute_requests; new references, NULL: out of memory. */
json_t *cell_env_set(json_t *env);
json_t *cell_env_restore(void);

#endif
