/* PUT /identity and PUT /clock: who this sandbox is, and when. First the
 * machine, then the limits, then everything warm reseeds; answered when the last
 * of them has acknowledged. */
#ifndef CARREL_AGENT_IDENTITY_H
#define CARREL_AGENT_IDENTITY_H

#include "request.h"

void identity_put(struct request *rq);
void identity_put_clock(struct request *rq);

#endif
