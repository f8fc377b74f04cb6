#include "bash/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
	const struct launch_file *files;
	size_t n;
	unsigned first_closed;
	const char *const *argv;
	char *const *env;
	int null_fd;
	pid_t kernel;
};

static void signals_default(void)
{
	struct sigaction act = { .sa_handler = SIG_DFL };
	sigset_t none;
	int sig;

	for (sig = 1; sig < NSIG; sig++)
		sigaction(sig, &act, NULL); /* refused for a few that are never anything else */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int files_place(const struct child *c)
{
	size_t i;

	for (i = 0; i < c->n; i++) {
		int ours = c->files[i].ours == LAUNCH_NULL ? c->null_fd : c->files[i].ours;

		if (ours == c->files[i].theirs ? fcntl(ours, F_SETFD, 0) < 0 : dup2(ours, c->files[i].theirs) < 0)
			return -errno;
	}
	return close_range(c->first_closed, UINT_MAX, 0) < 0 ? -errno : 0;
}

/* In the kernel's memory until bash takes its place: nothing but system calls. Returns the error. */
static int become_bash(const struct child *c)
{
	int err;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || setsid() < 0)
		return -errno;
	if (getppid() != c->kernel)
		_exit(0);
	err = files_place(c);
	if (err)
		return err;
	signals_default();
	/* The prototype is older than const: exec changes none of it. */
	execve("/bin/bash", (char *const *)c->argv, c->env);
	return -errno;
}

int launch_bash(const struct launch_file *files, size_t n, unsigned first_closed, const char *const *argv,
		char *const *env, pid_t *ret)
{
	struct child c = { files, n, first_closed, argv, env, open("/dev/null", O_RDWR | O_CLOEXEC), getpid() };
	volatile int err = 0;
	sigset_t all, old;
	pid_t pid;

	if (c.null_fd < 0)
		return -errno;
	/* A handler of ours must not run in the child, which has our memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = vfork();
	if (pid == 0) {
		err = become_bash(&c);
		_exit(127);
	}
	if (pid < 0)
		err = -errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(c.null_fd);
	if (pid > 0 && err)
		waitpid(pid, NULL, 0);
	if (err)
		return err;
	*ret = pid;
	return 0;
}
