/* Answers: heads, JSON, errors, raw bytes. A write that fails gives -EPIPE:
 * the client is gone or stalled past RESPOND_STALL_S. */
#ifndef CARREL_FRONT_RESPOND_H
#define CARREL_FRONT_RESPOND_H

#include <jansson.h>
#include <stdint.h>

#include "request.h"

/* A reader that takes nothing for this long has its thread taken away. Tests shorten it. */
#ifndef RESPOND_STALL_S
#define RESPOND_STALL_S 60
#endif

/* length -1: unknown. extra: whole header lines with CRLF, or "". */
int respond_head(struct request *r, int status, const char *type, int64_t length, const char *extra);
int respond_write(struct request *r, const char *buf, size_t len);
int respond_flush(struct request *r);

/* body's reference is taken. */
int respond_json(struct request *r, int status, json_t *body, struct fault *f);
/* extra: as for respond_head(). */
int respond_json_with(struct request *r, int status, json_t *body, const char *extra, struct fault *f);
int respond_empty(struct request *r, int status);
/* Before the head: the error as JSON; after it: cuts the connection. */
void respond_fault(struct request *r, const struct fault *f, const char *extra);
/* Ends the connection so that nginx breaks its client's as well. */
void respond_cut(struct request *r);
/* The same for any worker's connection, from any thread. */
void connection_cut(int fd);

#endif
