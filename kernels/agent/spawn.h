/* Starts one program: fork, place, drop, exec. Whether exec succeeded is told
 * through the loop, so that a slow disk never holds it up.
 *
 * The child is a session and process group leader, with default signals, soft
 * limits as usual, oom_score_adj as asked, and no descriptor but fd[].
 */
#ifndef CARREL_AGENT_SPAWN_H
#define CARREL_AGENT_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

enum { SPAWN_FDS = 4 };

struct spawn {
	char *const *argv; /* argv[0] is looked up in envp's PATH */
	char *const *envp;
	const char *cwd;
	int fd[SPAWN_FDS]; /* become 0, 1, 2, 3; -1: /dev/null for 0 to 2, none for 3 */
	int cgroup_procs;  /* the child writes itself there; -1: stays */
	int oom_score_adj;
	bool drop; /* for good to uid and gid */
	uid_t uid;
	gid_t gid;
};

/* err 0: the program runs. Else a negative errno; doing names the step. */
typedef void (*spawn_done)(void *arg, pid_t pid, int err, const char *doing);

/* Nothing in sp is needed after the call. Returns the pid (to be watched at
 * once) and calls done later, or returns a negative errno and does not. */
pid_t spawn_start(uv_loop_t *loop, const struct spawn *sp, spawn_done done, void *arg);

/* The done callback will not be called. arg is what spawn_start() got. */
void spawn_forget(void *arg);

#endif
