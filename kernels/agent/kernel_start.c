#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent.h"
#include "cgroup.h"
#include "env.h"
#include "kernel.h"
#include "parent.h"
#include "spawn.h"
#include "spec.h"
#include "util.h"

static void poll_free(uv_handle_t *handle)
{
	free(handle);
}

static void stderr_close(struct kernel *k)
{
	if (k->stderr_poll)
		uv_close((uv_handle_t *)k->stderr_poll, poll_free);
	k->stderr_poll = NULL;
	if (k->stderr_fd >= 0)
		close(k->stderr_fd);
	k->stderr_fd = -1;
}

static void stderr_event(uv_poll_t *poll, int status, int events)
{
	struct kernel *k = poll->data;
	char bytes[4096];
	ssize_t n = read(k->stderr_fd, bytes, sizeof(bytes));

	(void)status, (void)events;
	if (n > 0)
		tail_add(&k->crash, bytes, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		stderr_close(k);
}

/* The end of the pipe for the kernel, or a negative errno. */
static int stderr_open(struct kernel *k)
{
	int fds[2], err;

	stderr_close(k);
	tail_clear(&k->crash);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	k->stderr_fd = fds[0];
	k->stderr_poll = xcalloc(1, sizeof(*k->stderr_poll));
	k->stderr_poll->data = k;
	err = uv_poll_init(&k->agent->loop, k->stderr_poll, fds[0]);
	if (err) {
		free(k->stderr_poll);
		k->stderr_poll = NULL;
		close(fds[1]);
		return err;
	}
	uv_poll_start(k->stderr_poll, UV_READABLE, stderr_event);
	return fds[1];
}

/* A folder that belongs to the user, with no socket of an earlier process. */
static int folder_open(struct kernel *k, char **ret)
{
	cleanup_free char *folder = kernel_folder(k);
	int port;

	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (k->agent->opt.uid != geteuid() && chown(folder, k->agent->opt.uid, k->agent->opt.gid) < 0)
		return -errno;
	for (port = 1; port <= 5; port++) {
		cleanup_free char *path = xasprintf("%s/k-%d", folder, port);

		if (unlink(path) < 0 && errno != ENOENT)
			return -errno;
	}
	*ret = folder;
	folder = NULL;
	return 0;
}

static json_t *connection(struct kernel *k, const char *folder)
{
	json_t *c = json_pack("{s:s, s:s+, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:s}", "transport", "ipc", "ip",
			      folder, "/k", "shell_port", 1, "iopub_port", 2, "stdin_port", 3, "control_port",
			      4, "hb_port", 5, "key", k->key, "signature_scheme", "hmac-sha256",
			      "kernel_name", k->spec->name);

	if (!c)
		abort();
	if (k->spec->core)
		json_object_set_new(c, "carrel_unsent", json_true());
	return c;
}

static void started(struct kernel *k)
{
	if (!k->starter)
		return;
	request_answer(k->starter, k->generation == 1 ? 201 : 200, kernel_json(k));
	k->starter = NULL;
}

static void reaped(struct reaper_watch *w, int status)
{
	struct kernel *k = (struct kernel *)((char *)w - offsetof(struct kernel, watch));

	if (k->phase == KERNEL_FORKING) {
		k->ended_early = true;
		k->status = status;
	} else {
		kernel_died(k, status, true);
	}
}

/* Asks for kernel information until both the reply and iopub were heard: only
 * then is the subscription in place and no output can be missed. */
static void nudge(uv_timer_t *timer)
{
	struct kernel *k = timer->data;

	if (now_ms() - k->since > KERNEL_START_MS) {
		log_line("kernel %s did not answer in time and is killed", k->id);
		kill(-k->pid, SIGKILL);
		kill(k->pid, SIGKILL);
		return;
	}
	if (k->info_seen && !k->iopub_seen) {
		k->info_seen = false;
		jupyter_request(k->jupyter, WIRE_SHELL, "kernel_info_request", NULL);
	}
	uv_timer_start(&k->timer, nudge, KERNEL_NUDGE_MS, 0);
}

static void process_runs(struct kernel *k, pid_t pid)
{
	cleanup_free char *folder = kernel_folder(k);
	cleanup_free char *address = xasprintf("ipc://%s/k", folder);
	int err = jupyter_open(&k->agent->loop, address, k->key, &kernel_jupyter_ops, k, &k->jupyter);

	k->pid = pid;
	k->info_seen = k->iopub_seen = false;
	if (err) {
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
		reaper_unwatch(&k->watch);
		return kernel_failed(k, xasprintf("its sockets cannot be made: %s", strerror(-err)));
	}
	kernel_phase_set(k, KERNEL_STARTING);
	jupyter_request(k->jupyter, WIRE_SHELL, "kernel_info_request", NULL);
	uv_timer_start(&k->timer, nudge, KERNEL_NUDGE_MS, 0);
	started(k);
}

void kernel_start_heard(struct kernel *k)
{
	json_t *alive;

	if (k->phase != KERNEL_STARTING || !k->info_seen || !k->iopub_seen || !jupyter_connected(k->jupyter))
		return;
	kernel_phase_set(k, KERNEL_ALIVE);
	k->busy = false;
	kernel_output_open(k);
	alive = json_pack("{s:s, s:i, s:i}", "state", "alive", "generation", (int)k->generation, "pid",
			  (int)k->pid);
	kernel_channel_state(k, alive);
	if (k->reseed_due) {
		k->reseed_due = false;
		kernel_identity(k, false, NULL, NULL);
	}
	kernel_channel_flush(k);
}

static void forked(void *arg, pid_t pid, const char *message)
{
	struct kernel *k = arg;
	char path[64], score[16];

	if (pid <= 0)
		return kernel_failed(k, xstrdup(message));
	/* The child has the score of its parent, which is spared. */
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	snprintf(score, sizeof(score), "%d", cgroup_oom_score(k->agent));
	if (k->agent->opt.system && file_write(path, score) < 0)
		log_line("cannot set the out-of-memory score of kernel %s", k->id);
	reaper_watch(&k->watch, pid, reaped);
	process_runs(k, pid);
}

static int start_forked(struct kernel *k, json_t *conn, int stderr_fd)
{
	struct parent_fork f = {
		.id = k->id,
		.connection = conn,
		.cwd = k->cwd,
		.env = k->env,
		.stderr_fd = stderr_fd,
		.procs_fd = leaf_procs(k->leaf),
	};
	struct parent *p = parent_of(k->agent, k->spec);

	return p ? parent_fork(p, &f, forked, k) : -ENOENT;
}

static void spawned(void *arg, pid_t pid, int err, const char *doing)
{
	struct kernel *k = arg;

	if (err) {
		reaper_unwatch(&k->watch);
		return kernel_failed(k, xasprintf("it could not %s (%s): %s", doing,
						  json_string_value(json_array_get(k->spec->argv, 0)),
						  strerror(-err)));
	}
	process_runs(k, pid);
	if (k->ended_early && k->phase == KERNEL_STARTING)
		kernel_died(k, k->status, true);
}

static int connection_file(struct kernel *k, json_t *conn, const char *folder, char **ret)
{
	cleanup_free char *path = xasprintf("%s/connection.json", folder);
	cleanup_free char *text = json_dumps(conn, 0);
	int err;

	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	err = file_create(path, 0600, text, strlen(text));
	if (!err && k->agent->opt.uid != geteuid() && chown(path, k->agent->opt.uid, k->agent->opt.gid) < 0)
		err = -errno;
	if (err)
		return err;
	*ret = path;
	path = NULL;
	return 0;
}

static int start_spawned(struct kernel *k, json_t *conn, const char *folder, int stderr_fd)
{
	cleanup_json json_t *env = env_object(k->agent, k->spec->env);
	cleanup_free char *file = NULL;
	char **argv, **envp;
	struct spawn sp;
	pid_t pid;
	int err;

	err = connection_file(k, conn, folder, &file);
	if (err)
		return err;
	if (k->env)
		json_object_update(env, k->env);
	argv = spec_argv(k->spec, k->spec->argv, file);
	envp = env_list(env);
	sp = (struct spawn){
		.oom_score_adj = cgroup_oom_score(k->agent),
		.argv = argv,
		.envp = envp,
		.cwd = k->cwd,
		.fd = { -1, stderr_fd, stderr_fd, -1 },
		.cgroup_procs = leaf_procs(k->leaf),
		.drop = true,
		.uid = k->agent->opt.uid,
		.gid = k->agent->opt.gid,
	};
	pid = spawn_start(&k->agent->loop, &sp, spawned, k);
	env_list_free(argv);
	env_list_free(envp);
	if (pid < 0)
		return pid;
	k->pid = pid;
	reaper_watch(&k->watch, pid, reaped);
	return 0;
}

void kernel_start(struct kernel *k)
{
	cleanup_json json_t *conn = NULL;
	cleanup_free char *folder = NULL;
	cleanup_close int stderr_fd = -1;
	int err;

	kernel_phase_set(k, KERNEL_FORKING);
	k->generation++;
	k->wish = KERNEL_NO_WISH;
	k->pid = 0;
	k->oom_at = 0;
	k->busy = k->ended_early = k->status_known = k->identity_sent = k->reseed_due = k->identity_late = false;
	/* A key is for strangers who can come to the sockets. Ours lie in the user's own folder, who can do
	 * anything to the kernel already; but kernels made elsewhere warn where there is none. */
	k->key[0] = '\0';
	if (!k->spec->core)
		random_hex(k->key, sizeof(k->key) - 1);
	err = folder_open(k, &folder);
	if (!err) {
		stderr_fd = stderr_open(k);
		err = stderr_fd < 0 ? stderr_fd : 0;
	}
	if (!err) {
		conn = connection(k, folder);
		err = k->spec->parent ? start_forked(k, conn, stderr_fd)
				      : start_spawned(k, conn, folder, stderr_fd);
	}
	if (err)
		kernel_failed(k, xstrdup(err == -EMSGSIZE ? "its environment is too large" : strerror(-err)));
}

void kernel_start_stop(struct kernel *k)
{
	struct parent *p = k->spec->parent ? parent_of(k->agent, k->spec) : NULL;

	if (k->phase == KERNEL_FORKING && p)
		parent_forget(p, k);
	if (k->phase == KERNEL_FORKING && !p) {
		spawn_forget(k);
		if (k->watch.pid)
			kill(-k->watch.pid, SIGKILL);
	}
	stderr_close(k);
}
