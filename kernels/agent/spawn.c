#include "spawn.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "cgroup.h"
#include "descriptors.h"
#include "limits.h"
#include "util.h"

/* What the child says through its pipe when it cannot go on. */
struct failure {
	int err;
	unsigned step;
};

enum step { STEP_CGROUP, STEP_OOM, STEP_FILES, STEP_DROP, STEP_CWD, STEP_EXEC };

static const char *const step_names[] = {
	[STEP_CGROUP] = "enter its cgroup",
	[STEP_OOM] = "set its out-of-memory score",
	[STEP_FILES] = "arrange its descriptors",
	[STEP_DROP] = "drop to the user's rights",
	[STEP_CWD] = "change to its working directory",
	[STEP_EXEC] = "start the program",
};

struct pending {
	LIST_ENTRY(pending) entry;
	uv_poll_t poll;
	int fd;
	pid_t pid;
	spawn_done done;
	void *arg;
};

static LIST_HEAD(, pending) pendings = LIST_HEAD_INITIALIZER(pendings);

static __attribute__((noreturn)) void child_fail(int pipe_fd, enum step step)
{
	struct failure f = { .err = errno, .step = step };

	if (write(pipe_fd, &f, sizeof(f)) < 0)
		_exit(126);
	_exit(127);
}

static void child_signals(void)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	sigset_t none;
	int n;

	for (n = 1; n < NSIG; n++)
		sigaction(n, &sa, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int child_write(int fd, const char *text)
{
	ssize_t n = write(fd, text, strlen(text));

	return n < 0 ? -1 : 0;
}

/* Where the host's groups are of version 1: out of the agent's, so that it can still end what has used up
 * all memory. */
static int child_memory(void)
{
	int fd = open(CGROUP_V1_MEMORY_PROCS, O_WRONLY | O_CLOEXEC), err;

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	err = child_write(fd, "0");
	close(fd);
	return err;
}

static int child_oom(int score)
{
	char text[16];
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	/* Without proc there is no score to inherit either. */
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	snprintf(text, sizeof(text), "%d", score);
	return child_write(fd, text);
}

/* First out of the way of the low numbers, then into place. */
static int child_files(const struct spawn *sp, int *pipe_fd)
{
	struct rlimit files = { .rlim_cur = WORK_FILES_SOFT, .rlim_max = AGENT_FILES_MAX };
	int high[SPAWN_FDS], i;

	*pipe_fd = fcntl(*pipe_fd, F_DUPFD_CLOEXEC, 10);
	if (*pipe_fd < 0)
		return -1;
	for (i = 0; i < SPAWN_FDS; i++) {
		int fd = sp->fd[i];

		high[i] = -1;
		if (fd < 0 && i < 3)
			fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		else if (fd < 0)
			continue;
		if (fd < 0 || (high[i] = fcntl(fd, F_DUPFD_CLOEXEC, 10)) < 0)
			return -1;
	}
	for (i = 0; i < SPAWN_FDS; i++)
		if (high[i] >= 0 && dup2(high[i], i) < 0)
			return -1;
	/* All other descriptors of the agent close at exec; this is for those a library forgot. */
	syscall(SYS_close_range, high[3] >= 0 ? 4 : 3, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */);
	/* Of what is the user's; a parent of kernels hands the limit on to them. */
	if (sp->drop)
		files = descriptors_rlimit();
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 && errno != EPERM)
		return -1;
	return 0;
}

static int child_drop(const struct spawn *sp)
{
	if (!sp->drop)
		return 0;
	if (geteuid() == 0 && setgroups(0, NULL) < 0)
		return -1;
	if (setresgid(sp->gid, sp->gid, sp->gid) < 0)
		return -1;
	return setresuid(sp->uid, sp->uid, sp->uid);
}

static __attribute__((noreturn)) void child_run(const struct spawn *sp, int pipe_fd)
{
	setsid();
	child_signals();
	/* The agent may be favoured, what it starts is not. */
	setpriority(PRIO_PROCESS, 0, 0);
	if (child_memory() < 0 || (sp->cgroup_procs >= 0 && child_write(sp->cgroup_procs, "0") < 0))
		child_fail(pipe_fd, STEP_CGROUP);
	if (child_oom(sp->oom_score_adj) < 0 && sp->oom_score_adj >= 0)
		child_fail(pipe_fd, STEP_OOM);
	if (child_files(sp, &pipe_fd) < 0)
		child_fail(pipe_fd, STEP_FILES);
	if (child_drop(sp) < 0)
		child_fail(pipe_fd, STEP_DROP);
	if (chdir(sp->cwd) < 0)
		child_fail(pipe_fd, STEP_CWD);
	umask(022);
	environ = (char **)sp->envp;
	execvp(sp->argv[0], sp->argv);
	child_fail(pipe_fd, STEP_EXEC);
}

static void pending_free(uv_handle_t *handle)
{
	struct pending *p = handle->data;

	close(p->fd);
	free(p);
}

static void pending_end(struct pending *p)
{
	LIST_REMOVE(p, entry);
	uv_close((uv_handle_t *)&p->poll, pending_free);
}

static void pending_readable(uv_poll_t *poll, int status, int events)
{
	struct pending *p = poll->data;
	struct failure f = { 0 };
	ssize_t n = read(p->fd, &f, sizeof(f));
	spawn_done done = p->done;
	void *arg = p->arg;
	pid_t pid = p->pid;

	(void)status, (void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	pending_end(p);
	if (n == (ssize_t)sizeof(f) && f.step < ARRAY_SIZE(step_names))
		done(arg, pid, f.err ? -f.err : -EIO, step_names[f.step]);
	else
		done(arg, pid, 0, NULL);
}

static int pending_new(uv_loop_t *loop, int *fd, pid_t pid, spawn_done done, void *arg)
{
	struct pending *p = xcalloc(1, sizeof(*p));
	int err;

	p->fd = take_fd(fd);
	p->pid = pid;
	p->done = done;
	p->arg = arg;
	p->poll.data = p;
	err = uv_poll_init(loop, &p->poll, p->fd);
	if (err) {
		close(p->fd);
		free(p);
		return err;
	}
	LIST_INSERT_HEAD(&pendings, p, entry);
	return uv_poll_start(&p->poll, UV_READABLE, pending_readable);
}

pid_t spawn_start(uv_loop_t *loop, const struct spawn *sp, spawn_done done, void *arg)
{
	cleanup_close int ours = -1;
	cleanup_close int childs = -1;
	sigset_t all, old;
	int fds[2], err;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	ours = fds[0];
	childs = fds[1];
	/* No handler of the agent may run in the child before it has its own. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = fork();
	err = -errno;
	if (pid == 0)
		child_run(sp, childs);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return err;
	err = pending_new(loop, &ours, pid, done, arg);
	if (err) {
		kill(pid, SIGKILL);
		return err;
	}
	return pid;
}

void spawn_forget(void *arg)
{
	struct pending *p, *next;

	for (p = LIST_FIRST(&pendings); p; p = next) {
		next = LIST_NEXT(p, entry);
		if (p->arg == arg)
			pending_end(p);
	}
}
