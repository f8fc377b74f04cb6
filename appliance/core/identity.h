/* What makes a clone a machine of its own: time, randomness, names, environment,
 * limits. Sent before anything else; the kernels answer for it before user code runs.
 *
 * Afterwards, off the critical path, the clock is brought within
 * IDENTITY_CLOCK_NS by half round trips. Hub thread only.
 */
#ifndef CARREL_IDENTITY_H
#define CARREL_IDENTITY_H

#include <jansson.h>
#include <stdbool.h>

#include "guest.h"
#include "limits.h"

enum {
	IDENTITY_ENTROPY = 256,           /* bytes; the guest's kernel wants 32 */
	IDENTITY_CLOCK_NS = 20 * 1000000, /* what the clock may be off by */
	IDENTITY_CLOCK_TRIES = 8,         /* a loaded host has slow answers; one quick one is enough */
	/* The kernels acknowledge; one that imports its libraries only now takes long. */
	IDENTITY_CALL_MS = 300 * 1000,
};

struct identity;

struct identity_spec {
	const char *hostname; /* of the machine; its other names follow from it */
	json_t *env; /* borrowed */
	const struct limits *limits;
};

/* done: err 0, or negative errno with the fault's sentence; kernels is borrowed.
 * -ECONNRESET: the link went down; ask again when it is up. */
typedef void (*identity_done)(int err, const struct fault *f, json_t *kernels, void *arg);
/* 0 and then done() once, or a negative errno. */
int identity_send(struct guest *g, const struct identity_spec *spec, identity_done done, void *arg,
		  struct identity **ret);
/* For a machine that has an identity of its own already and stood still since: the
 * time alone. As identity_send(); kernels is NULL. */
int identity_send_time(struct guest *g, identity_done done, void *arg, struct identity **ret);
/* Owner goes away: no more callbacks. The guest is freed after this or before; accepts NULL. */
void identity_free(struct identity *id);

#endif
