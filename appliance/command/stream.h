/* A stream of events, the answer to a POST or an execution's own, followed to its end. */
#ifndef CARREL_STREAM_H
#define CARREL_STREAM_H

#include "events.h"

struct stream {
	struct command *command;
	struct events *events;
	/* For each signal while it runs; nonzero ends the stream. */
	int (*interrupt)(int signal, void *arg);
	void *arg;
};

/* 0 when `end` came. Otherwise an exit code, said on stderr; the stream is
 * taken up again where it broke, if the execution's id is known. */
int stream_follow(struct stream *s, const char *path, json_t *body);
/* The same for an execution that exists, named by events->execution_id: from events->seq on. */
int stream_resume(struct stream *s);

#endif
