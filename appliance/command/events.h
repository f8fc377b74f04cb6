/* What comes out of a cell or a process, shown as it comes: the NDJSON of
 * execute and processes (reference v1). */
#ifndef CARREL_EVENTS_H
#define CARREL_EVENTS_H

#include "command.h"

struct events {
	const struct command *command;
	const char *images; /* directory for pictures, or NULL */
	bool color;         /* stderr takes escape sequences */
	unsigned image_count;
	int unsaved; /* EXIT_FAILED once a picture could not be saved */
	char execution_id[64];
	json_int_t seq; /* the last one shown */
	bool ended;
	int exited;      /* N of a SystemExit(N) that code raised, or of bash's status; or -1 */
	int code;        /* once ended: the exit code that says how */
	char how[400];   /* a sentence, where the code alone does not tell; or "" */
	int write_error; /* stdout is gone: errno */
};

void events_init(struct events *e, const struct command *c, const char *images);
/* For struct lines: shows one event. Nonzero: nobody reads the output any more. */
int events_show(json_t *event, const char *text, size_t len, void *arg);

#endif
