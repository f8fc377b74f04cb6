/* Prepared parents: one process per kernelspec that has one, with everything
 * imported, from which kernels are forked (PROTOCOL.md, "Prepared parents").
 * A parent that dies is started again; its kernels live on. */
#ifndef CARREL_AGENT_PARENT_H
#define CARREL_AGENT_PARENT_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct agent;
struct parent;
struct spec;

/* Starts the parents of all specs. */
void parent_start_all(struct agent *a);
struct parent *parent_of(const struct agent *a, const struct spec *spec);
void parent_kill_all(struct agent *a);

struct parent_fork {
	const char *id;
	json_t *connection;
	const char *cwd;
	json_t *env;   /* in addition to the sandbox's */
	int stderr_fd; /* borrowed until the call returns */
	int procs_fd;
};

/* pid > 0, or message says why there is no kernel. */
typedef void (*parent_forked)(void *arg, pid_t pid, const char *message);

/* Waits for a parent that is still preparing. Returns 0 and calls done later, or
 * -EMSGSIZE (environment too large), -EMFILE and does not. */
int parent_fork(struct parent *p, const struct parent_fork *f, parent_forked done, void *arg);
/* done of arg will not be called; a kernel that still comes is killed. */
void parent_forget(struct parent *p, void *arg);

/* done(arg, NULL) when it took new randomness and environment, else with a
 * sentence. A parent that is still preparing takes them before its first fork:
 * then, and only then, false is returned and done is not called. */
bool parent_identity(struct parent *p, void (*done)(void *arg, const char *message), void *arg);
void parent_identity_forget(struct parent *p);

#endif
