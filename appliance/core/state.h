/* The states of a sandbox and what may follow what. Pure table, no I/O. */
#ifndef CARREL_STATE_H
#define CARREL_STATE_H

#include <stdbool.h>

enum sandbox_state {
	SANDBOX_CREATING, /* scratch disk, machine, link, identity */
	SANDBOX_RUNNING,
	SANDBOX_PAUSED,
	SANDBOX_ENDING, /* told to stop; waits for the engine */
	SANDBOX_ENDED,
	SANDBOX_STATES,
};

const char *sandbox_state_name(enum sandbox_state s);
bool sandbox_state_may(enum sandbox_state from, enum sandbox_state to);
/* Milliseconds that a sandbox may stay in a state, 0: its own deadline alone. boot: without a snapshot. */
unsigned sandbox_state_limit_ms(enum sandbox_state s, bool boot);

#endif
