/* GET /health, and POST /freeze: the state before a snapshot. */
#ifndef CARREL_AGENT_HEALTH_H
#define CARREL_AGENT_HEALTH_H

#include "request.h"

void health_get(struct request *rq);
void health_freeze(struct request *rq);

#endif
