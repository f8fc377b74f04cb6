/* Start bash with default signals, the leader of a session of its own, which ends
 * with the thread that started it: of a kernel that is killed no shell is left. */
#ifndef CARREL_BASH_LAUNCH_H
#define CARREL_BASH_LAUNCH_H

#include <stddef.h>
#include <sys/types.h>

/* A descriptor of ours, and the one it becomes. LAUNCH_NULL: /dev/null. */
enum { LAUNCH_NULL = -1 };
struct launch_file {
	int ours, theirs;
};

/* Done in order; then all from first_closed on are closed. Those that are not named are inherited. -errno. */
int launch_bash(const struct launch_file *files, size_t n, unsigned first_closed, const char *const *argv,
		char *const *env, pid_t *ret);

#endif
