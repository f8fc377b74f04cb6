#include "worker.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>

#include "agent.h"
#include "util.h"

struct job {
	uv_work_t work;
	struct agent *agent;
	bool as_user;
	void (*run)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

/* Of this thread alone, so by the system call: the wrapper of setuid() and its
 * like would change every thread. */
static void set_capabilities(bool all)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	int i;

	if (syscall(SYS_capget, &head, caps) < 0)
		abort();
	for (i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		caps[i].effective = all ? caps[i].permitted : 0;
	if (syscall(SYS_capset, &head, caps) < 0)
		abort();
}

static void take_rights(const struct agent *a, bool as_user)
{
	static _Thread_local bool is_user;
	uid_t uid = as_user ? a->opt.uid : 0;

	if (geteuid() != 0 || is_user == as_user)
		return;
	set_capabilities(true);
	setfsgid(as_user ? a->opt.gid : 0);
	setfsuid(uid);
	/* It tells nothing; asking again does. */
	if ((uid_t)setfsuid((uid_t)-1) != uid)
		abort();
	set_capabilities(!as_user);
	is_user = as_user;
}

static void run(uv_work_t *work)
{
	struct job *job = work->data;

	take_rights(job->agent, job->as_user);
	job->run(job->arg);
}

static void after(uv_work_t *work, int status)
{
	struct job *job = work->data;

	(void)status;
	job->done(job->arg);
	free(job);
}

void worker_run(struct agent *a, bool as_user, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
	struct job *job = xcalloc(1, sizeof(*job));

	job->agent = a;
	job->as_user = as_user;
	job->run = work;
	job->done = done;
	job->arg = arg;
	job->work.data = job;
	if (uv_queue_work(&a->loop, &job->work, run, after) < 0)
		abort();
}
