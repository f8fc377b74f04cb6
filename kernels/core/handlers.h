/* The table of requests and what each does. */
#ifndef CARREL_HANDLERS_H
#define CARREL_HANDLERS_H

struct core;
struct request;

/* Busy, handle, reply, idle. Main thread. */
void handlers_serve(struct core *c, struct request *r);
/* Mark every execute_request that waits behind a failed one. */
void core_abort_queued(struct core *c);

#endif
