/* Long bodies: events and bytes from the core to the client as they come.
 *
 * The client's hang-up is seen while waiting (its connection is polled), a slow
 * reader is bounded by respond.h. NDJSON gets a keepalive line after
 * STREAM_KEEPALIVE_MS of silence, only ever between lines.
 */
#ifndef CARREL_FRONT_STREAM_H
#define CARREL_FRONT_STREAM_H

#include "request.h"

enum { STREAM_KEEPALIVE_MS = 5000 };

/* The event log from after on, to its end, as a whole answer. log's reference is taken. */
int stream_log(struct request *r, struct xlog *log, uint64_t after, struct fault *f);
/* The pipe's NDJSON as a whole answer; closes the pipe. */
int stream_lines(struct request *r, struct bytepipe *pipe, struct fault *f);
/* The pipe's bytes as the body of an answer of known size; closes the pipe. */
int stream_bytes(struct request *r, struct bytepipe *pipe, int64_t size, struct fault *f);
/* size bytes of fd from its start as a body whose head was sent. */
int stream_file(struct request *r, int fd, uint64_t size);

#endif
