#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "agent.h"
#include "cgroup.h"
#include "env.h"
#include "events.h"
#include "spawn.h"
#include "util.h"

static struct process *process_find(const struct agent *a, const char *id)
{
	struct process *p;

	LIST_FOREACH(p, &a->processes, entry)
	if (strcmp(p->id, id) == 0)
		return p;
	return NULL;
}

static struct process *process_wanted(struct request *rq)
{
	struct process *p = process_find(rq->agent, rq->id);

	if (!p)
		request_fail(rq, 404, "not_found", "There is no process \"%s\".", rq->id);
	return p;
}

static void handle_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void process_free(struct process *p)
{
	spawn_forget(p);
	reaper_unwatch(&p->watch);
	process_io_free(p);
	leaf_free(p->leaf);
	LIST_REMOVE(p, entry);
	p->agent->process_count--;
	free(p->program);
	uv_close((uv_handle_t *)&p->timer, handle_closed);
}

static void process_reaped(struct reaper_watch *w, int status)
{
	struct process *p = (struct process *)((char *)w - offsetof(struct process, watch));

	p->ended = true;
	p->status = status;
	process_tell_oom(p->agent);
	if (p->started)
		process_io_finish(p);
}

static void start_failed(struct process *p, int err, const char *doing)
{
	struct request *rq = p->starter;
	bool program = err == -ENOENT || err == -EACCES || err == -ENOEXEC || err == -ENOTDIR ||
		       err == -EISDIR || err == -ELOOP || err == -ENAMETOOLONG;

	p->starter = NULL;
	if (program && strstr(doing, "directory"))
		request_fail(rq, 400, "bad_request", "The working directory cannot be entered: %s.",
			     strerror(-err));
	else if (program)
		request_fail(rq, 400, "no_such_program", "\"%.200s\" cannot be started: %s.", p->program,
			     err == -ENOENT ? "there is no such program" : strerror(-err));
	else if (err == -E2BIG)
		request_fail(rq, 400, "bad_request", "The arguments and environment are too long.");
	else
		request_fail(rq, 500, "process_start", "The process could not %s: %s.", doing,
			     strerror(-err));
	process_free(p);
}

static void process_started(void *arg, pid_t pid, int err, const char *doing)
{
	struct process *p = arg;

	if (err)
		return start_failed(p, err, doing);
	p->started = true;
	request_answer(p->starter, 201, json_pack("{s:s, s:i}", "id", p->id, "pid", (int)pid));
	p->starter = NULL;
	process_io_start(p);
	if (p->ended)
		process_io_finish(p);
}

static void process_start(struct process *p, char **argv, json_t *extra, const char *cwd, bool with_stdin)
{
	cleanup_json json_t *env = env_object(p->agent, extra);
	int childs[PROCESS_PIPES] = { -1, -1, -1 }, err, i;
	char **envp = env_list(env);
	pid_t pid = -1;

	err = process_io_open(p, with_stdin, childs);
	if (!err) {
		struct spawn sp = {
			.argv = argv,
			.envp = envp,
			.cwd = cwd,
			.fd = { childs[0], childs[1], childs[2], -1 },
			.cgroup_procs = leaf_procs(p->leaf),
			.oom_score_adj = cgroup_oom_score(p->agent),
			.drop = true,
			.uid = p->agent->opt.uid,
			.gid = p->agent->opt.gid,
		};

		pid = spawn_start(&p->agent->loop, &sp, process_started, p);
		err = pid < 0 ? pid : 0;
	}
	for (i = 0; i < PROCESS_PIPES; i++)
		if (childs[i] >= 0)
			close(childs[i]);
	env_list_free(envp);
	if (err)
		return start_failed(p, err == -ENOENT ? -EIO : err, "be forked");
	p->pid = pid;
	reaper_watch(&p->watch, pid, process_reaped);
}

static struct process *process_new(struct agent *a, const char *id, struct request *rq)
{
	struct process *p = xcalloc(1, sizeof(*p));
	int i;

	p->agent = a;
	p->starter = rq;
	snprintf(p->id, sizeof(p->id), "%s", id);
	STAILQ_INIT(&p->input);
	for (i = 0; i < PROCESS_PIPES; i++)
		p->pipe[i] = (struct process_pipe){ .p = p, .kind = (enum process_pipe_kind)i, .fd = -1 };
	uv_timer_init(&a->loop, &p->timer);
	p->timer.data = p;
	LIST_INSERT_HEAD(&a->processes, p, entry);
	a->process_count++;
	return p;
}

/* argv of the body, or "sh -c" of its cmd; false when the request was answered. */
static bool request_argv(struct request *rq, char ***ret)
{
	json_t *argv = json_object_get(rq->body, "argv"), *word;
	const char *cmd = NULL;
	char **list;
	size_t i;

	if (!request_string(rq, "cmd", false, &cmd))
		return false;
	if (!cmd == !argv) {
		request_fail(rq, 400, "bad_request", "Either \"argv\" or \"cmd\" is needed, and not both.");
		return false;
	}
	if (cmd) {
		list = xcalloc(4, sizeof(*list));
		list[0] = xstrdup("/bin/sh");
		list[1] = xstrdup("-c");
		list[2] = xstrdup(cmd);
		*ret = list;
		return true;
	}
	if (!json_is_array(argv) || !json_array_size(argv) || json_array_size(argv) > AGENT_ARGV_MAX) {
		request_fail(rq, 400, "bad_request", "\"argv\" must be an array of 1 to %d strings.",
			     AGENT_ARGV_MAX);
		return false;
	}
	list = xcalloc(json_array_size(argv) + 1, sizeof(*list));
	json_array_foreach(argv, i, word)
	{
		if (!json_is_string(word)) {
			env_list_free(list);
			request_fail(rq, 400, "bad_request", "\"argv\" must hold strings only.");
			return false;
		}
		list[i] = xstrdup(json_string_value(word));
	}
	*ret = list;
	return true;
}

void process_post(struct request *rq)
{
	const char *id = NULL, *cwd = NULL;
	struct agent *a = rq->agent;
	cleanup_free char *leaf_name = NULL;
	struct process *p;
	json_t *env;
	char **argv;
	int err;

	if (!request_identified(rq) || !request_string(rq, "id", true, &id) ||
	    !request_string(rq, "cwd", false, &cwd) || !request_env(rq, &env))
		return;
	if (!id_is_valid(id))
		return request_fail(rq, 400, "bad_request",
				    "\"id\" must be 1 to %d of A-Z a-z 0-9 - _ and '.'.", AGENT_ID_MAX);
	if (process_find(a, id))
		return request_fail(rq, 409, "exists", "There is a process \"%s\" already.", id);
	if (a->process_count >= AGENT_PROCESSES_MAX)
		return request_fail(rq, 429, "limit", "A sandbox has at most %d processes under way.",
				    AGENT_PROCESSES_MAX);
	if (!request_argv(rq, &argv))
		return;
	leaf_name = xasprintf("p-%s", id);
	p = process_new(a, id, rq);
	p->program = xstrdup(argv[0]);
	err = leaf_new(a, leaf_name, &p->leaf);
	if (err) {
		start_failed(p, err == -ENOENT ? -EIO : err, "be accounted for");
	} else {
		cleanup_free char *folder = !cwd || cwd[0] == '/' ? xstrdup(cwd ? cwd : a->opt.home)
								  : xasprintf("%s/%s", a->opt.home, cwd);

		process_start(p, argv, env, folder, json_is_true(json_object_get(rq->body, "stdin")));
	}
	env_list_free(argv);
}

void process_attach(struct request *rq)
{
	struct process *p = process_wanted(rq);

	if (p)
		request_channel(rq, p->channel);
}

void process_signal(struct request *rq)
{
	struct process *p = process_wanted(rq);
	json_int_t signum = 0;

	if (!p || !request_integer(rq, rq->body, "signal", 1, SIGRTMAX, &signum))
		return;
	if (!signum)
		return request_fail(rq, 400, "bad_request", "\"signal\" is needed.");
	if (p->ended)
		return request_fail(rq, 409, "wrong_state", "The process has ended.");
	if (kill(-p->pid, (int)signum) < 0 && errno != ESRCH)
		return request_fail(rq, 500, "signal", "The signal cannot be sent: %s.", strerror(errno));
	request_answer(rq, 204, NULL);
}

static void process_kill(struct process *p)
{
	if (!p->ended && p->pid > 0)
		kill(-p->pid, SIGKILL);
	leaf_kill(p->leaf);
}

void process_delete(struct request *rq)
{
	struct process *p = process_wanted(rq);

	if (!p)
		return;
	if (p->starter) {
		request_fail(p->starter, 409, "wrong_state", "The process was deleted meanwhile.");
		p->starter = NULL;
	}
	process_kill(p);
	process_free(p);
	request_answer(rq, 204, NULL);
}

void process_kill_all(struct agent *a)
{
	struct process *p;

	LIST_FOREACH(p, &a->processes, entry)
	process_kill(p);
}

void process_tell_oom(struct agent *a)
{
	struct process *p;

	LIST_FOREACH(p, &a->processes, entry)
	{
		if (!p->leaf || !leaf_oom(p->leaf))
			continue;
		p->oom_at = now_ms();
		events_send(a, json_pack("{s:s, s:s, s:i}", "event", "oom", "process", p->id, "pid",
					 (int)p->pid));
	}
}
