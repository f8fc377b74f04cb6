/* The table of everything the agent serves (PROTOCOL.md). */
#ifndef CARREL_AGENT_ROUTER_H
#define CARREL_AGENT_ROUTER_H

#include "request.h"

enum route_body {
	ROUTE_NONE,   /* the handler runs at once; a body is dropped */
	ROUTE_JSON,   /* the handler runs when rq->body is whole, at most AGENT_JSON_MAX */
	ROUTE_STREAM, /* the handler runs at once and sets hooks */
};

struct route {
	const char *method;
	const char *path; /* "{id}" stands for one part of the path */
	enum route_body body;
	void (*handler)(struct request *rq);
};

/* link_ops.request */
void router_request(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg);

#endif
