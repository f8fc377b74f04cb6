#include <getopt.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "agent.h"
#include "cgroup.h"
#include "crash.h"
#include "events.h"
#include "kernel.h"
#include "machine.h"
#include "parent.h"
#include "process.h"
#include "reaper.h"
#include "router.h"
#include "spec.h"
#include "transport.h"
#include "util.h"

enum { USER_ID = 1000 };

static const char usage[] =
	"carrel-agent [--socket PATH | --jail FD] [--test] [--run DIR] [--home DIR] [--kernels DIR:DIR]\n"
	"\n"
	"Process 1 of a sandbox. It serves the virtio port \"carrel.agent\", or PATH.\n"
	"--jail: it shares the host's kernel, and serves the listening socket FD.\n"
	"--test leaves clock, names, mounts, cgroups and disk alone.\n";

static uv_signal_t term_signal, int_signal;

void agent_shutdown(struct agent *a)
{
	kernel_kill_all(a);
	process_kill_all(a);
	parent_kill_all(a);
	if (a->opt.own_kernel && getpid() == 1) {
		sync();
		reboot(RB_POWER_OFF);
	}
	uv_stop(&a->loop);
}

static void on_term(uv_signal_t *handle, int signum)
{
	(void)signum;
	agent_shutdown(handle->data);
}

static void on_down(struct link *l, const char *why, void *arg)
{
	(void)l, (void)arg;
	log_line("the host is gone: %s", why);
}

static void on_want_write(struct link *l, void *arg)
{
	struct agent *a = arg;

	(void)l;
	if (a->binding)
		link_uv_kick(a->binding);
}

static const struct link_ops link_ops = {
	.down = on_down,
	.request = router_request,
	.want_write = on_want_write,
};

static int parse_options(struct agent *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },  { "test", no_argument, NULL, 't' },
		{ "run", required_argument, NULL, 'r' },     { "home", required_argument, NULL, 'h' },
		{ "kernels", required_argument, NULL, 'k' }, { "jail", required_argument, NULL, 'j' },
		{ 0 },
	};
	struct agent_options *o = &a->opt;
	int c;

	*o = (struct agent_options){
		.run = "/run/carrel",
		.home = "/home/user",
		.kernels =
			"/usr/lib/carrel/kernels:/usr/local/share/jupyter/kernels:/usr/share/jupyter/kernels",
		.listen_fd = -1,
		.system = true,
		.own_kernel = true,
		/* Without root there is nobody else to be. */
		.uid = geteuid() == 0 ? USER_ID : geteuid(),
		.gid = geteuid() == 0 ? USER_ID : getegid(),
	};
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			o->socket = optarg;
		else if (c == 't')
			o->system = o->own_kernel = false;
		else if (c == 'j')
			o->own_kernel = false, o->listen_fd = atoi(optarg);
		else if (c == 'r')
			o->run = optarg;
		else if (c == 'h')
			o->home = optarg;
		else if (c == 'k')
			o->kernels = optarg;
		else
			return -EINVAL;
	}
	return optind == argc && (o->listen_fd == -1 || o->listen_fd > 2) ? 0 : -EINVAL;
}

static int prepare_process(struct agent *a)
{
	struct rlimit files = { .rlim_cur = AGENT_FILES_MAX, .rlim_max = AGENT_FILES_MAX };
	cleanup_free char *kernels = xasprintf("%s/kernels", a->opt.run);

	signal(SIGPIPE, SIG_IGN);
	umask(022);
	if (geteuid() == 0 && setgroups(0, NULL) < 0)
		return -errno;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 && errno != EPERM)
		return -errno;
	/* Before any thread exists: it makes the seed of jansson's hashes. */
	json_object_seed(0);
	if (mkdir(a->opt.run, 0755) < 0 && errno != EEXIST)
		return -errno;
	return mkdir(kernels, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

static int watch_signals(struct agent *a)
{
	int err = uv_signal_init(&a->loop, &term_signal);

	if (!err)
		err = uv_signal_init(&a->loop, &int_signal);
	term_signal.data = int_signal.data = a;
	if (!err)
		err = uv_signal_start(&term_signal, on_term, SIGTERM);
	/* Process 1 gets it for Ctrl-Alt-Del. */
	return err ? err : uv_signal_start(&int_signal, on_term, SIGINT);
}

struct step {
	const char *what;
	int (*run)(struct agent *a);
};

static int run_machine(struct agent *a)
{
	return a->opt.own_kernel && getpid() == 1 ? machine_prepare() : 0;
}

static int run_crash(struct agent *a)
{
	return a->opt.system ? crash_watch() : 0;
}

static int run_loop(struct agent *a)
{
	return uv_loop_init(&a->loop);
}

static int run_reaper(struct agent *a)
{
	return reaper_start(&a->loop);
}

static int run_link(struct agent *a)
{
	a->link = link_new(LINK_SERVER, &link_ops, a);
	return a->link ? 0 : -ENOMEM;
}

static const struct step steps[] = {
	{ "mount what a guest needs", run_machine },
	{ "prepare itself", prepare_process },
	{ "watch for its own faults", run_crash },
	{ "make the cgroups", cgroup_start },
	{ "make its loop", run_loop },
	{ "reap children", run_reaper },
	{ "watch signals", watch_signals },
	{ "watch memory", events_start },
	{ "make its end of the link", run_link },
	{ "open the link", transport_start },
};

static int agent_start(struct agent *a)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		int err = steps[i].run(a);

		if (err) {
			log_line("cannot %s: %s", steps[i].what, strerror(-err));
			return err;
		}
	}
	spec_load(a);
	parent_start_all(a);
	return 0;
}

int agent_main(int argc, char **argv)
{
	static struct agent agent;
	int err;

	if (parse_options(&agent, argc, argv) < 0) {
		fputs(usage, stderr);
		return 2;
	}
	err = agent_start(&agent);
	if (!err)
		uv_run(&agent.loop, UV_RUN_DEFAULT);
	/* Process 1 must not return: the guest's kernel would panic. */
	if (agent.opt.own_kernel && getpid() == 1) {
		sync();
		reboot(RB_POWER_OFF);
	}
	return err ? 1 : 0;
}

/* Weak: a unit test links this folder under a main of its own. */
__attribute__((weak)) int main(int argc, char **argv)
{
	return agent_main(argc, argv);
}
