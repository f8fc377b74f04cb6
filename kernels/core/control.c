#include "core/control.h"
#include "core/core.h"
#include "core/log.h"
#include "core/handlers.h"
#include "core/reply.h"
#include "core/threads.h"
#include "core/usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

static void wake(int fd)
{
	uint64_t one = 1;

	/* Cannot fail: the counter is far from its maximum. */
	if (write(fd, &one, sizeof(one)) < 0)
		log_line("control: cannot wake a thread: %s", strerror(errno));
}

struct request *control_take(struct control *ctl)
{
	struct request *r;

	pthread_mutex_lock(&ctl->lock);
	r = ctl->in;
	if (r) {
		ctl->in = r->next;
		r->next = NULL;
	}
	if (!ctl->in)
		ctl->in_tail = &ctl->in;
	pthread_mutex_unlock(&ctl->lock);
	return r;
}

/* ---- the thread ---- */

static void answer(struct control *ctl, const struct request *r, const char *type, const char *text)
{
	struct slice content = { text, strlen(text) };
	int err = reply_send(ctl->sock, &ctl->signer, &ctl->core->session, r, type, content);

	if (err)
		log_line("control: a %s was lost: %s", type, strerror(-err));
}

static void serve_shutdown(struct control *ctl, const struct request *r)
{
	bool restart = request_bool(r, "restart", false);
	const char *text =
		restart ? "{\"status\":\"ok\",\"restart\":true}" : "{\"status\":\"ok\",\"restart\":false}";

	answer(ctl, r, "shutdown_reply", text);
	iopub_put_json(&ctl->core->iopub, "shutdown_reply", r->parent, json_loads(text, 0, NULL), NULL);
}

static void remember(struct control *ctl, const struct request *r)
{
	const struct slice *ident = r->view.idents;
	size_t n = r->view.n_idents > 0 && ident->len <= sizeof(ctl->last_ident) ? ident->len : 0;

	pthread_mutex_lock(&ctl->lock);
	parent_unref(ctl->last);
	ctl->last = parent_ref(r->parent);
	if (n > 0)
		memcpy(ctl->last_ident, ident->data, n);
	ctl->last_ident_len = n;
	pthread_mutex_unlock(&ctl->lock);
}

struct parent *control_last(struct control *ctl, char *ret_ident, size_t *ret_len)
{
	struct parent *last;

	pthread_mutex_lock(&ctl->lock);
	last = parent_ref(ctl->last);
	memcpy(ret_ident, ctl->last_ident, ctl->last_ident_len);
	*ret_len = ctl->last_ident_len;
	pthread_mutex_unlock(&ctl->lock);
	return last;
}

static void pass_to_main(struct control *ctl, struct request *r)
{
	pthread_mutex_lock(&ctl->lock);
	*ctl->in_tail = r;
	ctl->in_tail = &r->next;
	pthread_mutex_unlock(&ctl->lock);
	core_wake(ctl->core);
}

static void answer_usage(struct control *ctl, const struct request *r)
{
	json_t *content = usage_content();
	char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;

	answer(ctl, r, "usage_reply", text ? text : "{\"status\":\"error\"}");
	json_decref(content);
	free(text);
}

static bool is_own(const char *type)
{
	return !strcmp(type, "kernel_info_request") || !strcmp(type, "interrupt_request") ||
	       !strcmp(type, "usage_request") || !strcmp(type, "shutdown_request");
}

static void serve(struct control *ctl, struct request *r)
{
	struct core *c = ctl->core;
	bool leave = false;

	remember(ctl, r);
	if (subshell_serves(c, r->type)) {
		subshell_serve(c, r);
		return;
	}
	if (!is_own(r->type)) {
		pass_to_main(ctl, r);
		return;
	}
	iopub_put_status(&c->iopub, "busy", r->parent, false);
	if (!strcmp(r->type, "kernel_info_request")) {
		answer(ctl, r, "kernel_info_reply", ctl->kernel_info);
	} else if (!strcmp(r->type, "interrupt_request")) {
		core_interrupt(c);
		ctl->nudges = CORE_NUDGES;
		answer(ctl, r, "interrupt_reply", "{\"status\":\"ok\"}");
	} else if (!strcmp(r->type, "usage_request")) {
		answer_usage(ctl, r);
	} else {
		serve_shutdown(ctl, r);
		leave = true;
	}
	iopub_put_status(&c->iopub, "idle", r->parent, false);
	request_free(r);
	if (leave)
		core_stop(c);
}

/* The shell socket is this thread's. */
static void serve_shell(struct control *ctl, struct request *r)
{
	if (shell_route(ctl->core, r))
		return;
	r->lost = true;
	handlers_serve(ctl->core, r);
	request_free(r);
}

static void receive(struct control *ctl, void *sock, enum connection_channel channel,
		    void (*take)(struct control *, struct request *))
{
	struct request *r;
	struct frames frames;
	int err;

	while ((err = sock_recv(sock, &frames)) != -EAGAIN) {
		if (!err)
			err = request_parse(&ctl->signer, channel, &frames, &r);
		if (!err)
			take(ctl, r);
		else if (!reply_is_skipped(err))
			return;
		else
			log_line("control: a message was skipped: %s", reply_skip_reason(err));
	}
}

static bool is_stopping(struct control *ctl)
{
	bool stopping;

	pthread_mutex_lock(&ctl->lock);
	stopping = ctl->stopping;
	pthread_mutex_unlock(&ctl->lock);
	return stopping;
}

/* Shutdown was asked for and the main thread has not come to its end: the
 * user's code does not return. Deliver what there is and leave without it. */
static void leave_without_main(struct control *ctl)
{
	struct core *c = ctl->core;

	log_line("control: the running code did not end after a shutdown request; leaving without it");
	iopub_wait_empty(&c->iopub, CORE_STOP_MS);
	zmq_close(ctl->sock);
	_exit(0);
}

/* Milliseconds until the thread has to act without being asked. */
static int wait_ms(const struct control *ctl, bool last)
{
	if (last)
		return CORE_STOP_MS;
	return ctl->nudges ? CORE_NUDGE_MS << (CORE_NUDGES - ctl->nudges) : -1;
}

static int wait_events(struct control *ctl, bool last)
{
	zmq_pollitem_t items[] = {
		{ .socket = ctl->sock, .events = ZMQ_POLLIN },
		{ .fd = ctl->wake_fd, .events = ZMQ_POLLIN },
		{ .socket = ctl->core->shell, .events = ZMQ_POLLIN },
		{ 0 },
	};
	uint64_t count;
	int n_items = 2, n;

	if (ctl->core->shell_handed)
		n_items = 3;
	if (ctl->owner_fd >= 0)
		items[n_items++] = (zmq_pollitem_t){ .fd = ctl->owner_fd, .events = ZMQ_POLLIN };
	n = zmq_poll(items, n_items, wait_ms(ctl, last));
	if (n > 0 && items[1].revents && read(ctl->wake_fd, &count, sizeof(count)) < 0)
		log_line("control: cannot read the wake-up: %s", strerror(errno));
	if (n > 0 && ctl->owner_fd >= 0 && items[n_items - 1].revents) {
		log_line("control: the process that started this kernel ended; so does the kernel");
		close(ctl->owner_fd);
		ctl->owner_fd = -1;
		core_stop(ctl->core);
	}
	return n;
}

static void *control_main(void *arg)
{
	struct control *ctl = arg;
	bool last = false;
	int n;

	while (!is_stopping(ctl)) {
		last = atomic_load(&ctl->core->stop);
		n = wait_events(ctl, last);
		if (n == 0 && last)
			leave_without_main(ctl);
		if (n == 0)
			ctl->nudges = core_nudge(ctl->core) ? ctl->nudges - 1 : 0;
		control_send_out(ctl);
		receive(ctl, ctl->sock, CHANNEL_CONTROL, serve);
		if (ctl->core->shell_handed)
			receive(ctl, ctl->core->shell, CHANNEL_SHELL, serve_shell);
	}
	zmq_close(ctl->sock);
	return NULL;
}

/* jupyter_client names itself so: a kernel must not outlive a client that crashed. */
static int open_owner(struct core *c)
{
	const char *pid = getenv("JPY_PARENT_PID");
	long n = pid ? strtol(pid, NULL, 10) : 0;
	int fd = n > 1 ? (int)syscall(SYS_pidfd_open, (pid_t)n, 0) : -1;

	/* It ended while this process started. */
	if (n > 1 && fd < 0 && errno == ESRCH)
		core_stop(c);
	return fd;
}

int control_start(struct control *ctl, struct core *c, void *sock, const struct wire_signer *signer,
		  char *kernel_info)
{
	int err;

	*ctl = (struct control){ .core = c, .sock = sock, .signer = *signer, .kernel_info = kernel_info };
	ctl->in_tail = &ctl->in;
	ctl->out_tail = &ctl->out;
	pthread_mutex_init(&ctl->lock, NULL);
	ctl->owner_fd = open_owner(c);
	ctl->wake_fd = eventfd(0, EFD_CLOEXEC);
	err = ctl->wake_fd < 0 ? -errno : thread_start(&ctl->thread, "control", control_main, ctl, SCHED_OTHER);
	if (err)
		return err;
	ctl->started = true;
	return 0;
}

void control_stop(struct control *ctl)
{
	struct request *r;

	if (!ctl->started)
		return;
	pthread_mutex_lock(&ctl->lock);
	ctl->stopping = true;
	pthread_mutex_unlock(&ctl->lock);
	wake(ctl->wake_fd);
	pthread_join(ctl->thread, NULL);
	ctl->started = false;
	while ((r = control_take(ctl)))
		request_free(r);
	control_drop_out(ctl);
	parent_unref(ctl->last);
	wire_signer_free(&ctl->signer);
	close(ctl->wake_fd);
	free(ctl->kernel_info);
}
