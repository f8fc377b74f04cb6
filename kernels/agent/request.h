/* One request of the host and its one answer.
 *
 * A handler gets a request and ends it exactly once, now or later, by
 * request_answer(), request_fail(), request_channel() or request_finish();
 * rq is gone for it after that. The host may leave first: then st is NULL and
 * ending the request still is due, and quiet.
 */
#ifndef CARREL_AGENT_REQUEST_H
#define CARREL_AGENT_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "limits.h"
#include "link/link.h"

struct agent;
struct channel;
struct route;

/* For handlers that stream: told instead of a collected body. Members may be NULL. */
struct request_hooks {
	void (*data)(void *arg, const uint8_t *bytes, size_t len); /* link_consume() is the handler's */
	void (*eof)(void *arg);
	void (*writable)(void *arg);
	void (*closed)(void *arg); /* the host left; st is NULL from now on */
};

struct request {
	struct agent *agent;
	struct link_stream *st;
	char *query;               /* percent-encoded */
	char id[AGENT_ID_MAX + 1]; /* {id} of the path, else "" */
	json_t *body;              /* object; NULL for routes without one */

	const struct request_hooks *hooks; /* set by the handler */
	void *hook_arg;

	/* request.c's own */
	const struct route *route;
	char *in;
	size_t in_len;
	char *out;
	size_t out_len, out_at;
	bool refused; /* ended before its body was complete: the rest is dropped */
	bool ended;
};

/* Takes the stream over. */
void request_new(struct agent *a, struct link_stream *st, const struct route *route, const char *id,
		 const char *query);

/* body is taken over; NULL: an answer without one. */
void request_answer(struct request *rq, int status, json_t *body);
void request_fail(struct request *rq, int status, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Attaches the stream to c, which answers 200. */
void request_channel(struct request *rq, struct channel *c);
/* The handler wrote head, body and end itself. */
void request_finish(struct request *rq);

/* A value of the query, percent-decoded; to be freed. NULL when it is missing,
 * broken, holds a NUL or is longer than max. */
char *request_query(const struct request *rq, const char *name, size_t max);

/* Members of the body. Each answers the request itself and returns false when
 * the member is of the wrong kind, or missing and required. */
bool request_string(struct request *rq, const char *name, bool required, const char **ret);
bool request_integer(struct request *rq, json_t *object, const char *name, json_int_t min, json_int_t max,
		     json_int_t *ret);
bool request_env(struct request *rq, json_t **ret);
bool request_identified(struct request *rq);

#endif
