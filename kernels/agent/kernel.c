#include "kernel.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent.h"
#include "cgroup.h"
#include "events.h"
#include "link/channel.h"
#include "spec.h"
#include "util.h"

static struct kernel *kernel_find(const struct agent *a, const char *id)
{
	struct kernel *k;

	LIST_FOREACH(k, &a->kernels, entry)
	if (strcmp(k->id, id) == 0)
		return k;
	return NULL;
}

/* The kernel of the path, or an answer that there is none. */
static struct kernel *kernel_wanted(struct request *rq)
{
	struct kernel *k = kernel_find(rq->agent, rq->id);

	if (!k || k->wish == KERNEL_WISH_DELETE) {
		request_fail(rq, 404, "not_found", "There is no kernel \"%s\".", rq->id);
		return NULL;
	}
	return k;
}

static const char *kernel_state(const struct kernel *k)
{
	/* Replaced, in a clone: it ends, and another begins. */
	if (k->wish == KERNEL_WISH_RESTART)
		return "starting";
	if (k->phase == KERNEL_ALIVE)
		return k->busy ? "busy" : "idle";
	return k->phase == KERNEL_DRAINING || k->phase == KERNEL_DEAD ? "dead" : "starting";
}

json_t *kernel_json(const struct kernel *k)
{
	return json_pack("{s:s, s:s, s:s, s:i, s:s, s:i}", "id", k->id, "language", k->spec->language, "name",
			 k->spec->name, "pid", (int)k->pid, "state", kernel_state(k), "generation",
			 (int)k->generation);
}

json_t *kernel_list_json(const struct agent *a)
{
	json_t *list = json_array();
	struct kernel *k;

	LIST_FOREACH(k, &a->kernels, entry)
	json_array_append_new(list, kernel_json(k));
	return list;
}

void kernel_phase_set(struct kernel *k, enum kernel_phase phase)
{
	k->phase = phase;
	k->since = now_ms();
	uv_timer_stop(&k->timer);
}

char *kernel_folder(const struct kernel *k)
{
	return xasprintf("%s/kernels/%s", k->agent->opt.run, k->id);
}

static void folder_remove(struct kernel *k)
{
	cleanup_free char *folder = kernel_folder(k);
	DIR *dir = opendir(folder);
	struct dirent *de;

	while (dir && (de = readdir(dir)))
		unlinkat(dirfd(dir), de->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(folder);
}

static void handle_closed(uv_handle_t *handle)
{
	struct kernel *k = handle->data;

	if (--k->open_handles == 0)
		free(k);
}

void kernel_free(struct kernel *k)
{
	kernel_identity_end(k, NULL);
	kernel_start_stop(k);
	reaper_unwatch(&k->watch);
	jupyter_close(k->jupyter);
	kernel_channel_free(k);
	if (k->leaf) {
		leaf_kill(k->leaf);
		leaf_free(k->leaf);
	}
	folder_remove(k);
	LIST_REMOVE(k, entry);
	k->agent->kernel_count--;
	if (k->interrupter)
		request_answer(k->interrupter, 204, NULL);
	if (k->starter)
		request_fail(k->starter, 409, "wrong_state", "The kernel was deleted meanwhile.");
	if (k->stopper)
		request_answer(k->stopper, 204, NULL);
	kernel_output_close(k);
	free(k->cell);
	free(k->cwd);
	free(k->start_error);
	json_decref(k->env);
	uv_close((uv_handle_t *)&k->timer, handle_closed);
	uv_close((uv_handle_t *)&k->interrupt_timer, handle_closed);
}

static struct kernel *kernel_new(struct agent *a, const char *id, const struct spec *spec)
{
	struct kernel *k = xcalloc(1, sizeof(*k));

	k->agent = a;
	k->spec = spec;
	k->stderr_fd = k->output_fd[0] = k->output_fd[1] = k->unsent_fd = -1;
	snprintf(k->id, sizeof(k->id), "%s", id);
	STAILQ_INIT(&k->waiting);
	uv_timer_init(&a->loop, &k->timer);
	uv_timer_init(&a->loop, &k->interrupt_timer);
	k->timer.data = k->interrupt_timer.data = k;
	k->open_handles = 2;
	LIST_INSERT_HEAD(&a->kernels, k, entry);
	a->kernel_count++;
	return k;
}

static void kernel_create(struct request *rq, const char *id, const struct spec *spec, const char *cwd,
			  json_t *env)
{
	struct agent *a = rq->agent;
	struct kernel *k = kernel_new(a, id, spec);
	cleanup_free char *leaf_name = xasprintf("k-%s", id);
	int err;

	k->cwd = cwd[0] == '/' ? xstrdup(cwd) : xasprintf("%s/%s", a->opt.home, cwd);
	k->env = json_incref(env);
	k->starter = rq;
	err = leaf_new(a, leaf_name, &k->leaf);
	if (!err)
		err = kernel_channel_open(k);
	if (err)
		return kernel_failed(k, xasprintf("it cannot be accounted for: %s", strerror(-err)));
	kernel_start(k);
}

void kernel_post(struct request *rq)
{
	const char *id = NULL, *language = NULL, *name = NULL, *cwd = rq->agent->opt.home;
	const struct spec *spec;
	json_t *env;

	if (!request_identified(rq) || !request_string(rq, "id", true, &id) ||
	    !request_string(rq, "language", false, &language) || !request_string(rq, "name", false, &name) ||
	    !request_string(rq, "cwd", false, &cwd) || !request_env(rq, &env))
		return;
	if (!id_is_valid(id))
		return request_fail(rq, 400, "bad_request",
				    "\"id\" must be 1 to %d of A-Z a-z 0-9 - _ and '.'.", AGENT_ID_MAX);
	if (!language && !name)
		return request_fail(rq, 400, "bad_request", "Either \"language\" or \"name\" is needed.");
	spec = spec_find(rq->agent, name, language);
	if (!spec)
		return request_fail(rq, 400, "bad_request", "This template has no kernel for \"%s\".",
				    name ? name : language);
	if (kernel_find(rq->agent, id))
		return request_fail(rq, 409, "exists", "There is a kernel \"%s\" already.", id);
	if (rq->agent->kernel_count >= AGENT_KERNELS_MAX)
		return request_fail(rq, 429, "limit", "A sandbox has at most %d kernels.", AGENT_KERNELS_MAX);
	kernel_create(rq, id, spec, cwd, env);
}

void kernel_list(struct request *rq)
{
	request_answer(rq, 200, json_pack("{s:o}", "kernels", kernel_list_json(rq->agent)));
}

void kernel_delete(struct request *rq)
{
	struct kernel *k = kernel_wanted(rq);

	if (!k)
		return;
	k->wish = KERNEL_WISH_DELETE;
	k->stopper = rq;
	kernel_stop(k);
}

void kernel_restart(struct request *rq)
{
	struct kernel *k = kernel_wanted(rq);

	if (!k || !request_identified(rq))
		return;
	if (k->starter)
		return request_fail(rq, 409, "wrong_state", "The kernel is being started already.");
	k->starter = rq;
	k->death_count = 0;
	if (k->phase == KERNEL_DEAD)
		return kernel_start(k);
	if (k->phase == KERNEL_FORKING)
		return;
	k->wish = KERNEL_WISH_RESTART;
	kernel_stop(k);
}

void kernel_attach(struct request *rq)
{
	struct kernel *k = kernel_wanted(rq);

	if (k)
		request_channel(rq, k->channel);
}

void kernel_interrupt(struct request *rq)
{
	struct kernel *k = kernel_wanted(rq);

	if (!k)
		return;
	if (k->phase == KERNEL_DEAD)
		return request_fail(rq, 409, "wrong_state", "The kernel is dead; restart it first.");
	if (k->phase != KERNEL_ALIVE || k->interrupter)
		return request_answer(rq, 204, NULL);
	if (!k->spec->interrupt_message) {
		kill(-k->pid, SIGINT);
		return request_answer(rq, 204, NULL);
	}
	k->interrupter = rq;
	kernel_interrupt_start(k);
}

static void kernel_reap(struct kernel *k, int status)
{
	reaper_unwatch(&k->watch);
	kernel_died(k, status, true);
}

void kernel_process_ended(struct agent *a, pid_t pid, int status)
{
	struct kernel *k;

	LIST_FOREACH(k, &a->kernels, entry)
	if (k->pid == pid && k->watch.pid == pid)
		return kernel_reap(k, status);
}

void kernel_parent_ended(struct agent *a)
{
	struct kernel *k, *next;

	for (k = LIST_FIRST(&a->kernels); k; k = next) {
		next = LIST_NEXT(k, entry);
		/* It ended, its parent took note, and died before it could tell. */
		if (k->watch.pid && kill(k->watch.pid, 0) < 0 && errno == ESRCH) {
			reaper_unwatch(&k->watch);
			kernel_died(k, 0, false);
		}
	}
}

void kernel_kill_all(struct agent *a)
{
	struct kernel *k;

	LIST_FOREACH(k, &a->kernels, entry)
	{
		if (k->watch.pid)
			kill(-k->watch.pid, SIGKILL);
		leaf_kill(k->leaf);
	}
}

void kernel_tell_oom(struct agent *a)
{
	struct kernel *k;

	LIST_FOREACH(k, &a->kernels, entry)
	{
		if (!k->leaf || !leaf_oom(k->leaf))
			continue;
		k->oom_at = now_ms();
		events_send(a, json_pack("{s:s, s:s, s:i}", "event", "oom", "process", k->id, "pid",
					 (int)k->pid));
	}
}
