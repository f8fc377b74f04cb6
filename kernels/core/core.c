#include "core/core.h"
#include "core/handlers.h"
#include "core/log.h"
#include "core/reply.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>

/* ---- fork: no thread, lock or socket of the core is usable in a child ---- */

static bool in_child;
static struct capture *forking;

static void fork_prepare(void)
{
	capture_fork_prepare(forking);
}

static void fork_parent(void)
{
	capture_fork_parent(forking);
}

static void fork_child(void)
{
	capture_fork_child(forking);
	in_child = true;
}

bool core_is_child(void)
{
	return in_child;
}

/* ---- start and end ---- */

#define FAIL(...) (snprintf(why, why_size, __VA_ARGS__), -EIO)

struct socks {
	void *shell, *control, *stdin_sock, *iopub, *hb;
};

static int bind_all(struct core *c, struct socks *s, char *why, size_t why_size)
{
	struct {
		void **sock;
		enum connection_channel channel;
		int type;
	} rows[] = {
		{ &s->shell, CHANNEL_SHELL, ZMQ_ROUTER },
		{ &s->control, CHANNEL_CONTROL, ZMQ_ROUTER },
		{ &s->stdin_sock, CHANNEL_STDIN, ZMQ_ROUTER },
		{ &s->iopub, CHANNEL_IOPUB, ZMQ_XPUB },
		{ &s->hb, CHANNEL_HB, ZMQ_ROUTER },
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		*rows[i].sock = sock_bind(c->zctx, rows[i].type, c->conn.address[rows[i].channel]);
		if (!*rows[i].sock)
			return FAIL("cannot bind %s: %s", c->conn.address[rows[i].channel],
				    zmq_strerror(errno));
	}
	return 0;
}

static char *kernel_info_text(struct core *c)
{
	json_t *info = c->ops->kernel_info(c->lang);
	char *text = info ? json_dumps(info, JSON_COMPACT) : NULL;

	json_decref(info);
	return text;
}

static int start_threads(struct core *c, const struct socks *s, char *why, size_t why_size)
{
	struct wire_signer signer[3] = { 0 };
	char *info = kernel_info_text(c);
	int i, err = info ? 0 : -ENOMEM;

	for (i = 0; i < 3 && !err; i++)
		err = wire_signer_init(&signer[i], c->conn.key, c->conn.key_len);
	if (!err) {
		c->signer = signer[0];
		err = iopub_start(&c->iopub, s->iopub, &c->session, &c->capture, c->unsent, &signer[1]);
	}
	if (!err)
		err = control_start(&c->control, c, s->control, &signer[2], info);
	if (!err)
		err = heartbeat_start(&c->heartbeat, s->hb);
	if (err)
		return FAIL("cannot start the kernel's threads: %s", strerror(-err));
	return 0;
}

int core_start(struct core *c, const struct connection *conn, const struct lang_ops *ops, void *lang,
	       char *why, size_t why_size)
{
	struct socks s = { 0 };
	int err;

	*c = (struct core){ .ops = ops, .lang = lang, .conn = *conn };
	shell_init(&c->shell_line, c);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->queue_lock, NULL);
	pthread_mutex_init(&c->shell_lock, NULL);
	pthread_mutex_init(&c->input_lock, NULL);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = session_init(&c->session);
	if (err || c->wake_fd < 0 || c->interrupt_fd < 0)
		return FAIL("the system refuses an eventfd or randomness: %s", strerror(err ? -err : errno));
	c->zctx = zmq_ctx_new();
	if (!c->zctx)
		return FAIL("cannot start ZeroMQ: %s", zmq_strerror(errno));
	/* As the iopub thread: messages leave in bursts, not one switch of threads each. */
	zmq_ctx_set(c->zctx, ZMQ_THREAD_SCHED_POLICY, SCHED_BATCH);
	err = bind_all(c, &s, why, why_size);
	if (err)
		return err;
	c->shell = s.shell;
	c->stdin_sock = s.stdin_sock;
	c->unsent = conn->unsent ? unsent_new() : NULL;
	if (conn->unsent && !c->unsent)
		return FAIL("the system refuses memory for what a crash must not take: %s", strerror(errno));
	err = capture_open(&c->capture, &c->iopub, c->unsent ? c->unsent->line : NULL);
	if (err)
		return FAIL("cannot make the pipes of standard output: %s", strerror(-err));
	/* C code's own lines keep their order with what Python writes. */
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	forking = &c->capture;
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	err = start_threads(c, &s, why, why_size);
	if (err)
		return err;
	iopub_put_status(&c->iopub, "starting", NULL, false);
	return 0;
}

void core_finish(struct core *c)
{
	struct request *r;

	capture_drain(&c->capture);
	control_stop(&c->control);
	iopub_stop(&c->iopub, CORE_STOP_MS);
	while ((r = shell_next(&c->shell_line)))
		request_free(r);
	zmq_close(c->shell);
	zmq_close(c->stdin_sock);
	zmq_ctx_shutdown(c->zctx);
	heartbeat_join(&c->heartbeat);
	/* Waits for what lingers; a held iopub thread would keep it for ever. */
	if (!c->iopub.started)
		zmq_ctx_term(c->zctx);
	wire_signer_free(&c->signer);
}

/* ---- interrupts ---- */

void core_interruptible(struct core *c, bool on)
{
	uint64_t count;

	pthread_mutex_lock(&c->lock);
	c->interruptible = on;
	pthread_mutex_unlock(&c->lock);
	/* Forget an interrupt that nobody waited for. */
	if (on && read(c->interrupt_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_line("cannot read the interrupt's descriptor: %s", strerror(errno));
}

void core_interrupt(struct core *c)
{
	uint64_t one = 1;

	pthread_mutex_lock(&c->lock);
	if (c->interruptible) {
		if (write(c->interrupt_fd, &one, sizeof(one)) < 0)
			log_line("cannot wake a waiting input: %s", strerror(errno));
		/* Children that the code waits for are in the same group. */
		kill(getpgrp() == getpid() ? 0 : getpid(), SIGINT);
	}
	pthread_mutex_unlock(&c->lock);
}

/* SIGURG: what it does by default, in the user's code and its children, is nothing. */
static void nudged(int sig)
{
	(void)sig;
}

static void nudge_prepare(struct core *c)
{
	struct sigaction act = { .sa_handler = nudged }; /* no SA_RESTART: that is the point */

	c->main = pthread_self();
	sigaction(SIGURG, &act, NULL);
}

bool core_nudge(struct core *c)
{
	bool running;

	pthread_mutex_lock(&c->lock);
	running = c->interruptible;
	if (running)
		pthread_kill(c->main, SIGURG);
	pthread_mutex_unlock(&c->lock);
	return running;
}

/* ---- requests ---- */

static struct request *next_request(struct core *c)
{
	struct request *r = control_take(&c->control);

	if (!r)
		r = shell_next(&c->shell_line);
	if (r)
		return r;
	shell_receive(c);
	return shell_next(&c->shell_line);
}

static void wait_request(struct core *c)
{
	if (c->ops->idle && c->ops->idle(c->lang, c))
		return;
	shell_wait(c, -1);
}

void core_run(struct core *c)
{
	struct request *r;

	nudge_prepare(c);
	while (!atomic_load(&c->stop)) {
		r = next_request(c);
		if (!r) {
			wait_request(c);
			continue;
		}
		handlers_serve(c, r);
		request_free(r);
	}
}

void core_serve_comms(struct core *c)
{
	struct request *r;

	shell_receive(c);
	while ((r = shell_next_comm(c))) {
		handlers_serve(c, r);
		request_free(r);
	}
}

void core_wake(struct core *c)
{
	uint64_t one = 1;

	/* Cannot fail: the counter is far from its maximum. */
	if (write(c->wake_fd, &one, sizeof(one)) < 0)
		log_line("cannot wake the main thread: %s", strerror(errno));
}

void core_stop(struct core *c)
{
	atomic_store(&c->stop, true);
	core_wake(c);
}
