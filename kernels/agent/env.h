/* Environments: what the sandbox starts from, what identity set, what a request
 * adds, later over earlier. */
#ifndef CARREL_AGENT_ENV_H
#define CARREL_AGENT_ENV_H

#include <jansson.h>

struct agent;

/* NULL when env (an object of strings, or NULL) may be used, else a sentence's end:
 * what is wrong with it. */
const char *env_wrong(json_t *env);

/* A new object: the defaults, then identity's, then extra's (may be NULL). */
json_t *env_object(const struct agent *a, json_t *extra);
/* NAME=VALUE strings ended by NULL, to be freed by env_list_free(). */
char **env_list(json_t *env);
void env_list_free(char **list);

#endif
