/* Kernelspecs: what kernels this image has. Read once at start from the folders
 * of opt.kernels, the first of a name wins; one that cannot be used is logged
 * and left out. */
#ifndef CARREL_AGENT_SPEC_H
#define CARREL_AGENT_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/queue.h>

struct agent;

struct spec {
	LIST_ENTRY(spec) entry;
	char *name;
	char *language;
	char *folder;
	json_t *argv;
	json_t *parent; /* argv of the prepared parent, or NULL */
	json_t *env;    /* may be NULL */
	bool interrupt_message;
	/* Made with kernels/core: it takes carrel_identity_request, needs no key, and reads
	 * its descriptors 1 and 2 itself. All with a parent are. */
	bool core;
};

void spec_load(struct agent *a);
/* By name or, when name is NULL, by language (a prepared one first). NULL when there is none. */
const struct spec *spec_find(const struct agent *a, const char *name, const char *language);
/* A copy of argv with {connection_file} and {resource_dir} filled in; for env_list_free(). */
char **spec_argv(const struct spec *spec, json_t *argv, const char *connection_file);

#endif
