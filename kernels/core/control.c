#include "core/control.h"
#include "core/core.h"
#include "core/log.h"
#include "core/reply.h"
#include "core/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>

struct control_out {
	struct control_out *next;
	struct slice idents[WIRE_IDENTS_MAX];
	size_t n_idents;
	struct parent *parent;
	char type[MESSAGE_TYPE_MAX];
	char *text; /* content, or the key when type is empty */
	size_t len;
};

static void wake(int fd)
{
	uint64_t one = 1;

	/* Cannot fail: the counter is far from its maximum. */
	if (write(fd, &one, sizeof(one)) < 0)
		log_line("control: cannot wake a thread: %s", strerror(errno));
}

static void out_free(struct control_out *o)
{
	size_t i;

	for (i = 0; i < o->n_idents; i++)
		free((void *)o->idents[i].data);
	parent_unref(o->parent);
	free(o->text);
	free(o);
}

static void out_post(struct control *ctl, struct control_out *o)
{
	pthread_mutex_lock(&ctl->lock);
	*ctl->out_tail = o;
	ctl->out_tail = &o->next;
	pthread_mutex_unlock(&ctl->lock);
	wake(ctl->wake_fd);
}

void control_reply(struct control *ctl, const struct request *r, const char *type, json_t *content)
{
	struct control_out *o = calloc(1, sizeof(*o));
	size_t i;
	void *copy;

	if (o)
		o->text = json_dumps(content, JSON_COMPACT);
	json_decref(content);
	if (!o || !o->text) {
		free(o);
		log_line("control: out of memory, a %s was lost", type);
		return;
	}
	o->len = strlen(o->text);
	o->parent = parent_ref(r->parent);
	strncpy(o->type, type, sizeof(o->type) - 1);
	/* The request is freed before the control thread sends. */
	for (i = 0; i < r->view.n_idents; i++) {
		copy = malloc(r->view.idents[i].len + 1);
		if (!copy)
			break;
		memcpy(copy, r->view.idents[i].data, r->view.idents[i].len);
		o->idents[o->n_idents++] = (struct slice){ copy, r->view.idents[i].len };
	}
	out_post(ctl, o);
}

int control_rekey(struct control *ctl, const char *key, size_t len)
{
	struct control_out *o = calloc(1, sizeof(*o));

	if (o)
		o->text = malloc(len + 1);
	if (!o || !o->text) {
		free(o);
		return -ENOMEM;
	}
	memcpy(o->text, key, len);
	o->len = len;
	out_post(ctl, o);
	return 0;
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
	int err = reply_send(ctl->sock, &ctl->signer, &ctl->core->session, r->view.idents, r->view.n_idents,
			     type, r->parent, content);

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

static void serve(struct control *ctl, struct request *r)
{
	struct core *c = ctl->core;
	bool leave = false;

	if (strcmp(r->type, "kernel_info_request") && strcmp(r->type, "interrupt_request") &&
	    strcmp(r->type, "shutdown_request")) {
		pthread_mutex_lock(&ctl->lock);
		*ctl->in_tail = r;
		ctl->in_tail = &r->next;
		pthread_mutex_unlock(&ctl->lock);
		wake(c->wake_fd);
		return;
	}
	iopub_put_status(&c->iopub, "busy", r->parent, false);
	if (!strcmp(r->type, "kernel_info_request")) {
		answer(ctl, r, "kernel_info_reply", ctl->kernel_info);
	} else if (!strcmp(r->type, "interrupt_request")) {
		core_interrupt(c);
		ctl->nudges = CORE_NUDGES;
		answer(ctl, r, "interrupt_reply", "{\"status\":\"ok\"}");
	} else {
		serve_shutdown(ctl, r);
		leave = true;
	}
	iopub_put_status(&c->iopub, "idle", r->parent, false);
	request_free(r);
	if (leave)
		core_stop(c);
}

static void receive(struct control *ctl)
{
	struct request *r;
	struct frames frames;
	int err;

	while ((err = sock_recv(ctl->sock, &frames)) != -EAGAIN) {
		if (!err)
			err = request_parse(&ctl->signer, CHANNEL_CONTROL, &frames, &r);
		if (!err)
			serve(ctl, r);
		else if (err != -E2BIG && err != -EBADMSG && err != -EACCES && err != -ENOMEM)
			return;
		else
			log_line("control: a message was skipped: %s", reply_skip_reason(err));
	}
}

static void send_out(struct control *ctl)
{
	struct control_out *o;
	int err;

	for (;;) {
		pthread_mutex_lock(&ctl->lock);
		o = ctl->out;
		if (o)
			ctl->out = o->next;
		if (!ctl->out)
			ctl->out_tail = &ctl->out;
		pthread_mutex_unlock(&ctl->lock);
		if (!o)
			return;
		if (o->type[0])
			err = reply_send(ctl->sock, &ctl->signer, &ctl->core->session, o->idents, o->n_idents,
					 o->type, o->parent, (struct slice){ o->text, o->len });
		else
			err = wire_rekey(&ctl->signer, o->text, o->len);
		if (err)
			log_line("control: %s failed: %s", o->type[0] ? o->type : "the new key",
				 strerror(-err));
		out_free(o);
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

static void *control_main(void *arg)
{
	struct control *ctl = arg;
	zmq_pollitem_t items[] = {
		{ .socket = ctl->sock, .events = ZMQ_POLLIN },
		{ .fd = ctl->wake_fd, .events = ZMQ_POLLIN },
	};
	uint64_t count;
	bool last = false;
	int n;

	while (!is_stopping(ctl)) {
		last = atomic_load(&ctl->core->stop);
		n = zmq_poll(items, 2, wait_ms(ctl, last));
		if (n == 0 && last)
			leave_without_main(ctl);
		if (n == 0)
			ctl->nudges = core_nudge(ctl->core) ? ctl->nudges - 1 : 0;
		if (n > 0 && items[1].revents && read(ctl->wake_fd, &count, sizeof(count)) < 0)
			log_line("control: cannot read the wake-up: %s", strerror(errno));
		send_out(ctl);
		receive(ctl);
	}
	zmq_close(ctl->sock);
	return NULL;
}

int control_start(struct control *ctl, struct core *c, void *sock, const struct wire_signer *signer,
		  char *kernel_info)
{
	int err;

	*ctl = (struct control){ .core = c, .sock = sock, .signer = *signer, .kernel_info = kernel_info };
	ctl->in_tail = &ctl->in;
	ctl->out_tail = &ctl->out;
	pthread_mutex_init(&ctl->lock, NULL);
	ctl->wake_fd = eventfd(0, EFD_CLOEXEC);
	err = ctl->wake_fd < 0 ? -errno : thread_start(&ctl->thread, "control", control_main, ctl, SCHED_OTHER);
	if (err)
		return err;
	ctl->started = true;
	return 0;
}

void control_stop(struct control *ctl)
{
	struct control_out *o;
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
	while ((o = ctl->out)) {
		ctl->out = o->next;
		out_free(o);
	}
	wire_signer_free(&ctl->signer);
	close(ctl->wake_fd);
	free(ctl->kernel_info);
}
