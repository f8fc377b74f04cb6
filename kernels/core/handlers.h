/* The table of requests and what each does. */
#ifndef CARREL_HANDLERS_H
#define CARREL_HANDLERS_H

struct core;
struct request;

/* Busy, handle, reply, idle. A thread that serves a line of requests. */
void handlers_serve(struct core *c, struct request *r);

#endif
