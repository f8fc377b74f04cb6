/* The events' channel: what the host should know without asking. Events are
 * dropped from the middle when nobody listens for long. */
#ifndef CARREL_AGENT_EVENTS_H
#define CARREL_AGENT_EVENTS_H

#include <jansson.h>

#include "request.h"

/* Makes the channel; watches the out-of-memory killer. Negative errno. */
int events_start(struct agent *a);
void events_attach(struct request *rq);
/* event is taken over. */
void events_send(struct agent *a, json_t *event);

#endif
