/* One request from accept to answer: what handlers get.
 *
 * A handler answers through respond.h and returns 0, or returns a negative
 * errno with the fault, which the caller answers. A fault after the head was
 * sent cuts the connection, so that the client sees a broken body instead of a
 * short one.
 */
#ifndef CARREL_FRONT_REQUEST_H
#define CARREL_FRONT_REQUEST_H

#include <fcgiapp.h>
#include <jansson.h>
#include <stdbool.h>

#include "fields.h"
#include "front.h"
#include "route.h"
#include "target.h"

struct request {
	FCGX_Request *fcgi;
	const struct settings *settings;
	struct store *store;
	struct core *core;
	struct hatches *hatches;
	struct front *front;
	bool stream_socket; /* came in on stream.sock */

	const char *method;
	struct target target;
	const struct route *route;
	const char *id;   /* the path's first {…}: the thing asked for */
	const char *part; /* the second, or NULL */
	char owner[STORE_ID_MAX];
	char key_id[STORE_ID_MAX]; /* of the key it came with */
	struct worker *worker; /* whose thread this is */
	bool admin;

	bool head_sent;
	int status;     /* of the head; 0: none was sent */
	bool head_only; /* HEAD */
	json_t *body;   /* parsed; borrowed by what fields_read() filled */
};

/* Answers the request that fcgi just accepted. Does not finish it. */
void request_serve(struct request *r);

/* The JSON body by its table into dest. 413 past the route's bound. */
int request_fields(struct request *r, const struct field *table, void *dest, struct fault *f);
/* The JSON body into r->body, whatever fields it has. */
int request_json(struct request *r, struct fault *f);
/* Raw bytes of the body: > 0, 0 at its end, or -EPIPE when the client went away inside it. */
int request_read(struct request *r, char *buf, int size);
/* Whence it came, as nginx saw it. */
const char *request_address(const struct request *r);
/* Bytes announced by Content-Length, or -1. */
int64_t request_length(const struct request *r);

#endif
