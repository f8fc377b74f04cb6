/* GET /stats: what the sandbox uses now. */
#ifndef CARREL_AGENT_STATS_H
#define CARREL_AGENT_STATS_H

#include "request.h"

void stats_get(struct request *rq);

#endif
