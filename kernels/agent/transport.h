/* What carries the link: the virtio port "carrel.agent", or, with --socket and
 * --jail, the latest connection to a unix socket. */
#ifndef CARREL_AGENT_TRANSPORT_H
#define CARREL_AGENT_TRANSPORT_H

struct agent;

/* Returns 0 or a negative errno. */
int transport_start(struct agent *a);

#endif
