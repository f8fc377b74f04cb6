#include "state.h"

enum {
	/* A clone takes 0.3 s on an idle host, a boot to a warm kernel 50 s; ten times that on one that is
	   overloaded. */
	CLONE_LIMIT_MS = 60 * 1000,
	BOOT_LIMIT_MS = 600 * 1000,
	/* The engine kills at once; past this it is asked again. */
	ENDING_LIMIT_MS = 10 * 1000,
};

static const char *const names[SANDBOX_STATES] = {
	[SANDBOX_CREATING] = "creating", [SANDBOX_RUNNING] = "running", [SANDBOX_PAUSED] = "paused",
	[SANDBOX_ENDING] = "ending",     [SANDBOX_ENDED] = "ended",
};

static const bool may[SANDBOX_STATES][SANDBOX_STATES] = {
	[SANDBOX_CREATING] = { [SANDBOX_RUNNING] = true, [SANDBOX_ENDING] = true },
	[SANDBOX_RUNNING] = { [SANDBOX_PAUSED] = true, [SANDBOX_ENDING] = true },
	[SANDBOX_PAUSED] = { [SANDBOX_RUNNING] = true, [SANDBOX_ENDING] = true },
	[SANDBOX_ENDING] = { [SANDBOX_ENDED] = true },
};

const char *sandbox_state_name(enum sandbox_state s)
{
	return names[s];
}

bool sandbox_state_may(enum sandbox_state from, enum sandbox_state to)
{
	return may[from][to];
}

unsigned sandbox_state_limit_ms(enum sandbox_state s, bool boot)
{
	if (s == SANDBOX_CREATING)
		return boot ? BOOT_LIMIT_MS : CLONE_LIMIT_MS;
	return s == SANDBOX_ENDING ? ENDING_LIMIT_MS : 0;
}
