/* Start bash with default signals, the leader of a session of its own. */
#ifndef CARREL_BASH_LAUNCH_H
#define CARREL_BASH_LAUNCH_H

#include <spawn.h>
#include <sys/types.h>

/* files says what becomes of descriptors. -errno. */
int launch_bash(const posix_spawn_file_actions_t *files, const char *const *argv, char *const *env,
		pid_t *ret);

#endif
