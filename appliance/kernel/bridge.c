#include "bridge.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../command/proxy.h"

/* --- files --- */

static void on_files_timer(uv_timer_t *t);

static void files_done(struct bridge_job *job)
{
	struct bridge *b = job->bridge;

	b->files_busy = false;
	if (job->message[0])
		fprintf(stderr, "carrel kernel: %s\n", job->message);
	if (b->end_due)
		bridge_end(b, b->code);
	else if (b->files_due && !b->ending)
		uv_timer_start(&b->files_timer, on_files_timer, BRIDGE_FILES_MS, 0);
}

static void on_files_timer(uv_timer_t *t)
{
	struct bridge *b = t->data;

	if (b->files_busy || b->ending)
		return;
	b->files_due = false;
	b->files_busy = bridge_job(b, job_files, files_done, NULL);
}

void bridge_files_wanted(struct bridge *b)
{
	if (!b->files)
		return;
	b->files_due = true;
	if (!b->files_busy)
		uv_timer_start(&b->files_timer, on_files_timer, BRIDGE_FILES_MS, 0);
}

/* --- life --- */

static void start_done(struct bridge_job *job)
{
	struct bridge *b = job->bridge;

	if (job->code) {
		fprintf(stderr, "carrel kernel: %s\n", job->message);
		/* Also when it was to end anyway: now there is nothing to wait for. */
		b->ending = false;
		bridge_end(b, job->code);
		return;
	}
	memcpy(b->kernel_id, job->kernel_id, sizeof(b->kernel_id));
	memcpy(b->sandbox_id, job->sandbox_id, sizeof(b->sandbox_id));
	b->used |= job->reused;
	if (b->ending) {
		bridge_end(b, b->code);
		return;
	}
	if (job->message[0]) {
		json_t *content = json_pack("{s:s,s:s+}", "name", "stderr", "text", job->message, "\n");
		char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;

		fprintf(stderr, "carrel kernel: %s\n", job->message);
		if (text)
			local_say(b->local, LOCAL_IOPUB, NULL, "stream", "{}", 2, text);
		free(text);
		json_decref(content);
	}
	remote_connect(b->remote, b->kernel_id);
}

static void close_handle(void *handle)
{
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static void end_done(struct bridge_job *job)
{
	struct bridge *b = job->bridge;
	int i;

	if (job->code && !job->gone)
		fprintf(stderr, "carrel kernel: %s\n", job->message);
	if (!b->restart)
		state_forget(b);
	for (i = 0; i < 3; i++)
		close_handle(&b->signals[i]);
	close_handle(&b->files_timer);
	close_handle(&b->turns.timer);
	turns_free(&b->turns);
	if (b->parent_fd >= 0)
		close_handle(&b->parent);
	remote_close(b->remote);
	local_close(b->local);
	b->remote = NULL;
	b->local = NULL;
}

void bridge_end(struct bridge *b, int code)
{
	bool starting = !b->kernel_id[0] && !code;

	if (b->ending && !b->kernel_id[0])
		return;
	b->code = code;
	/* Its sandbox is being made: ended once it is there. */
	if (!b->ending && starting) {
		b->ending = true;
		return;
	}
	b->ending = true;
	/* One job at a time has the files. */
	b->end_due = b->files_busy;
	if (!b->end_due && !bridge_job(b, job_end, end_done, NULL))
		exit(EXIT_FAILED);
}

static void on_signal(uv_signal_t *s, int number)
{
	struct bridge *b = s->data;

	/* Once more: at once. */
	if (b->signalled)
		exit(EXIT_SIGNAL + number);
	b->signalled = true;
	if (!b->ending)
		bridge_end(b, EXIT_OK);
}

static void on_parent(uv_poll_t *p, int status, int events)
{
	struct bridge *b = p->data;

	(void)status;
	(void)events;
	uv_poll_stop(p);
	if (!b->ending)
		bridge_end(b, EXIT_OK);
}

/* Whoever manages kernels says which process a kernel must not outlive. */
static void parent_watch(struct bridge *b)
{
	const char *pid = getenv("JPY_PARENT_PID");

	b->parent_fd = pid && atoi(pid) > 1 ? (int)syscall(SYS_pidfd_open, atoi(pid), 0) : -1;
	if (b->parent_fd < 0)
		return;
	uv_poll_init(&b->loop, &b->parent, b->parent_fd);
	b->parent.data = b;
	uv_poll_start(&b->parent, UV_READABLE, on_parent);
}

static void signals_watch(struct bridge *b)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
	int i;

	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < 3; i++) {
		uv_signal_init(&b->loop, &b->signals[i]);
		b->signals[i].data = b;
		uv_signal_start(&b->signals[i], on_signal, numbers[i]);
	}
}

int bridge_run(struct command *c, const struct bridge_options *options)
{
	struct bridge b = { .command = c, .options = options, .parent_fd = -1 };
	char why[512] = "Out of memory.", proxy[512];
	struct connection where;

	if (proxy_find(c->http.where.url, proxy, sizeof(proxy)) < 0)
		return complain(EXIT_FAILED,
				"WebSockets go through proxies of plain HTTP only, and the environment names %s: set http_proxy "
				"or https_proxy to such a one, or no_proxy where the appliance is reached without.",
				proxy);
	uv_loop_init(&b.loop);
	uv_timer_init(&b.loop, &b.files_timer);
	b.files_timer.data = &b;
	if (connection_from_file(options->connection_file, &where, why, sizeof(why)) < 0 ||
	    local_open(&b.loop, &where, &bridge_local_ops, &b, &b.local, why, sizeof(why)) < 0)
		return complain(EXIT_FAILED, "%s", why);
	b.remote = remote_new(&b.loop, &c->http.where, proxy, &bridge_remote_ops, &b);
	b.files = options->files ? copy_files_new(options->files) : NULL;
	if (!b.remote || (options->files && !b.files))
		return complain(EXIT_FAILED, "The WebSocket library does not start.");
	turns_init(&b.turns, &b.loop, b.local);
	signals_watch(&b);
	parent_watch(&b);
	local_say_state(b.local, NULL, 0, "starting");
	if (!bridge_job(&b, job_start, start_done, NULL))
		return complain(EXIT_FAILED, "Out of memory.");
	uv_run(&b.loop, UV_RUN_DEFAULT);
	asked_free(&b.asked);
	copy_files_free(b.files);
	if (b.parent_fd >= 0)
		close(b.parent_fd);
	return b.code;
}
