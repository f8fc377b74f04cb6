#include "parent.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include "agent.h"
#include "env.h"
#include "kernel.h"
#include "parent_inner.h"
#include "spawn.h"
#include "spec.h"
#include "util.h"

static void parent_start(struct parent *p);

static void poll_free(uv_handle_t *handle)
{
	free(handle);
}

static void parent_disconnect(struct parent *p)
{
	if (p->poll)
		uv_close((uv_handle_t *)p->poll, poll_free);
	p->poll = NULL;
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	p->ready = false;
}

static void retry(uv_timer_t *timer)
{
	parent_start(timer->data);
}

static void parent_ended(struct reaper_watch *w, int status)
{
	struct parent *p = (struct parent *)((char *)w - offsetof(struct parent, watch));
	bool early = now_ms() - p->started < PARENT_RETRY_MS * 10;

	log_line("the prepared parent of %s ended (status 0x%x) and is started again", p->spec->name, status);
	parent_disconnect(p);
	kernel_parent_ended(p->agent);
	parent_unanswered(p);
	if (early)
		uv_timer_start(&p->timer, retry, PARENT_RETRY_MS, 0);
	else
		parent_start(p);
}

static void spawned(void *arg, pid_t pid, int err, const char *doing)
{
	struct parent *p = arg;

	(void)pid;
	if (err)
		log_line("the prepared parent of %s could not %s: %s", p->spec->name, doing, strerror(-err));
}

static int parent_spawn(struct parent *p, int childs_end)
{
	cleanup_json json_t *env = env_object(p->agent, p->spec->env);
	char **envp = env_list(env);
	char **argv = spec_argv(p->spec, p->spec->parent, NULL);
	/* As root, so that it can hand its kernels over to their cgroups; it
	 * takes the user's effective rights itself. */
	struct spawn sp = {
		.argv = argv,
		.envp = envp,
		.cwd = p->agent->opt.home,
		.fd = { -1, 2, 2, childs_end },
		.cgroup_procs = -1,
		.oom_score_adj = -900,
	};
	pid_t pid = spawn_start(&p->agent->loop, &sp, spawned, p);

	env_list_free(argv);
	env_list_free(envp);
	if (pid < 0)
		return pid;
	reaper_watch(&p->watch, pid, parent_ended);
	return 0;
}

static int parent_connect(struct parent *p)
{
	cleanup_close int childs_end = -1;
	int size = 4 * PARENT_PACKET_MAX, fds[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	p->fd = fds[0];
	childs_end = fds[1];
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	p->poll = xcalloc(1, sizeof(*p->poll));
	p->poll->data = p;
	err = uv_poll_init(&p->agent->loop, p->poll, p->fd);
	if (err) {
		free(p->poll);
		p->poll = NULL;
		return err;
	}
	uv_poll_start(p->poll, UV_READABLE, parent_event);
	return parent_spawn(p, childs_end);
}

static void parent_start(struct parent *p)
{
	int err;

	p->started = now_ms();
	p->identity_due = p->identity_sent = false;
	err = parent_connect(p);
	if (!err)
		return;
	log_line("the prepared parent of %s cannot start: %s", p->spec->name, strerror(-err));
	parent_disconnect(p);
	uv_timer_start(&p->timer, retry, PARENT_RETRY_MS, 0);
}

void parent_start_all(struct agent *a)
{
	const struct spec *spec;

	LIST_FOREACH(spec, &a->specs, entry)
	{
		struct parent *p;

		if (!spec->parent)
			continue;
		p = xcalloc(1, sizeof(*p));
		p->agent = a;
		p->spec = spec;
		p->fd = -1;
		TAILQ_INIT(&p->jobs);
		uv_timer_init(&a->loop, &p->timer);
		p->timer.data = p;
		LIST_INSERT_HEAD(&a->parents, p, entry);
		parent_start(p);
	}
}

void parent_kill_all(struct agent *a)
{
	struct parent *p;

	LIST_FOREACH(p, &a->parents, entry)
	if (p->watch.pid)
		kill(p->watch.pid, SIGKILL);
}

struct parent *parent_of(const struct agent *a, const struct spec *spec)
{
	struct parent *p;

	LIST_FOREACH(p, &a->parents, entry)
	if (p->spec == spec)
		return p;
	return NULL;
}
