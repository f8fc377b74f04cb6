#include "bash/launch.h"

#include <signal.h>

int launch_bash(const posix_spawn_file_actions_t *files, const char *const *argv, char *const *env,
		pid_t *ret)
{
	posix_spawnattr_t attr;
	sigset_t all, none;
	int err;

	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setsigmask(&attr, &none);
	/* The prototype is older than const: exec changes none of it. */
	err = posix_spawn(ret, "/bin/bash", files, &attr, (char *const *)argv, env);
	posix_spawnattr_destroy(&attr);
	return -err;
}
