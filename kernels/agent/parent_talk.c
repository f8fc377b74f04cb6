#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "agent.h"
#include "base64.h"
#include "descriptors.h"
#include "env.h"
#include "kernel.h"
#include "parent_inner.h"
#include "spec.h"
#include "util.h"

static void job_end(struct parent *p, struct fork_job *job, pid_t pid, const char *message)
{
	TAILQ_REMOVE(&p->jobs, job, entry);
	if (job->done)
		job->done(job->arg, pid, message);
	else if (pid > 0)
		kill(-pid, SIGKILL);
	if (!job->sent && job->fds[0] >= 0)
		close(job->fds[0]);
	if (!job->sent && job->fds[1] >= 0)
		close(job->fds[1]);
	free(job->packet);
	free(job->id);
	free(job);
}

static void identity_end(struct parent *p, const char *message)
{
	void (*done)(void *arg, const char *message) = p->identity_done;

	p->identity_sent = false;
	p->identity_done = NULL;
	if (done)
		done(p->identity_arg, message);
}

void parent_unanswered(struct parent *p)
{
	struct fork_job *job, *next;

	identity_end(p, "the prepared parent died while it took the new identity");
	for (job = TAILQ_FIRST(&p->jobs); job; job = next) {
		next = TAILQ_NEXT(job, entry);
		if (job->sent)
			job_end(p, job, -1, "its prepared parent died");
	}
}

static void parent_give_up(struct parent *p, const char *why)
{
	log_line("the prepared parent of %s %s; it is ended", p->spec->name, why);
	if (p->watch.pid)
		kill(p->watch.pid, SIGKILL);
}

static int send_packet(struct parent *p, const char *packet, const int *fds)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec iov = { .iov_base = (char *)packet, .iov_len = strlen(packet) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;

	if (fds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(2 * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, 2 * sizeof(int));
	}
	return sendmsg(p->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int send_identity(struct parent *p)
{
	cleanup_json json_t *packet = NULL;
	cleanup_free char *text = NULL;
	cleanup_free char *entropy = base64_random(64);

	packet = json_pack("{s:s, s:s, s:o}", "op", "identity", "entropy", entropy, "env",
			   env_object(p->agent, p->spec->env));
	text = packet ? json_dumps(packet, JSON_COMPACT) : NULL;
	if (!text || strlen(text) > PARENT_PACKET_MAX)
		return -EMSGSIZE;
	return send_packet(p, text, NULL);
}

static void overdue(uv_timer_t *timer)
{
	struct parent *p = timer->data;
	struct fork_job *job;

	TAILQ_FOREACH(job, &p->jobs, entry)
	if (job->sent && now_ms() >= job->deadline)
		return parent_give_up(p, "did not fork a kernel in time");
	if (!TAILQ_EMPTY(&p->jobs))
		uv_timer_start(&p->timer, overdue, PARENT_FORK_MS / 10, 0);
}

/* The identity goes first: no kernel is forked with the old one. */
static int work_once(struct parent *p)
{
	struct fork_job *job;
	int err;

	if (p->identity_due) {
		err = send_identity(p);
		if (!err) {
			p->identity_due = false;
			p->identity_sent = true;
		}
		return err;
	}
	TAILQ_FOREACH(job, &p->jobs, entry)
	{
		if (job->sent)
			continue;
		err = send_packet(p, job->packet, job->fds);
		if (err)
			return err;
		job->sent = true;
		job->deadline = now_ms() + PARENT_FORK_MS;
		uv_timer_start(&p->timer, overdue, PARENT_FORK_MS / 10, 0);
		close(job->fds[0]);
		close(job->fds[1]);
		return 0;
	}
	return -ENOENT;
}

static void on_exited(struct parent *p, json_t *packet)
{
	json_int_t pid = json_integer_value(json_object_get(packet, "pid"));
	json_int_t status = json_integer_value(json_object_get(packet, "status"));

	kernel_process_ended(p->agent, (pid_t)pid, (int)status);
}

static void on_fork_answer(struct parent *p, json_t *packet, const char *op)
{
	const char *id = json_string_value(json_object_get(packet, "id"));
	json_int_t pid = json_integer_value(json_object_get(packet, "pid"));
	const char *message = json_string_value(json_object_get(packet, "message"));
	struct fork_job *job;

	TAILQ_FOREACH(job, &p->jobs, entry)
	if (job->sent && id && strcmp(job->id, id) == 0)
		break;
	if (!job)
		return log_line("the prepared parent of %s answered for a kernel nobody asked for",
				p->spec->name);
	if (strcmp(op, "forked") == 0 && pid > 0)
		job_end(p, job, (pid_t)pid, NULL);
	else
		job_end(p, job, -1, message ? message : "the prepared parent gave no reason");
}

static void on_identity(struct parent *p, json_t *packet)
{
	const char *message = json_string_value(json_object_get(packet, "message"));

	if (json_is_true(json_object_get(packet, "ok")))
		message = NULL;
	else if (!message)
		message = "a prepared parent could not take the new identity";
	identity_end(p, message);
}

static void on_packet(struct parent *p, const char *bytes, size_t len)
{
	cleanup_json json_t *packet = json_loadb(bytes, len, 0, NULL);
	const char *op = json_string_value(json_object_get(packet, "op"));

	if (!op)
		return log_line("the prepared parent of %s sent a packet that is none", p->spec->name);
	if (strcmp(op, "ready") == 0) {
		p->ready = true;
		/* A parent that comes after identity missed it. */
		p->identity_due = p->agent->identified;
	} else if (strcmp(op, "identity") == 0) {
		on_identity(p, packet);
	} else if (strcmp(op, "exited") == 0) {
		on_exited(p, packet);
	} else if (strcmp(op, "forked") == 0 || strcmp(op, "failed") == 0) {
		on_fork_answer(p, packet, op);
	}
}

void parent_event(uv_poll_t *poll, int status, int events)
{
	struct parent *p = poll->data;
	static char bytes[PARENT_PACKET_MAX];

	(void)status, (void)events;
	while (p->fd >= 0) {
		ssize_t n = recv(p->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			/* Its end is told by the reaper; a parent that only
			 * closed its socket is of no more use. */
			uv_poll_stop(p->poll);
			if (p->watch.pid)
				kill(p->watch.pid, SIGKILL);
			p->ready = false;
			return;
		}
		on_packet(p, bytes, (size_t)n);
	}
	parent_work(p);
}

/* Sends what can be sent; waits for room where the socket is full. */
void parent_work(struct parent *p)
{
	int err = 0;

	if (!p->poll)
		return;
	while (p->ready && !p->identity_sent && !err)
		err = work_once(p);
	if (err == -EMSGSIZE || err == -EPIPE)
		return parent_give_up(p, "cannot be written to");
	uv_poll_start(p->poll, err == -EAGAIN ? UV_READABLE | UV_WRITABLE : UV_READABLE, parent_event);
}

static struct fork_job *job_new(const struct parent_fork *f)
{
	struct fork_job *job = xcalloc(1, sizeof(*job));
	cleanup_json json_t *packet =
		json_pack("{s:s, s:s, s:O, s:s, s:o}", "op", "fork", "id", f->id, "connection", f->connection,
			  "cwd", f->cwd, "env", f->env ? json_incref(f->env) : json_object());

	if (packet && descriptors_asked())
		json_object_set_new(packet, "open_files", json_integer((json_int_t)descriptors_asked()));
	job->packet = packet ? json_dumps(packet, JSON_COMPACT) : NULL;
	if (!job->packet)
		abort();
	job->id = xstrdup(f->id);
	job->fds[0] = fcntl(f->stderr_fd, F_DUPFD_CLOEXEC, 3);
	job->fds[1] = fcntl(f->procs_fd, F_DUPFD_CLOEXEC, 3);
	return job;
}

int parent_fork(struct parent *p, const struct parent_fork *f, parent_forked done, void *arg)
{
	struct fork_job *job = job_new(f);
	int err = 0;

	if (job->fds[0] < 0 || job->fds[1] < 0)
		err = -EMFILE;
	else if (strlen(job->packet) > PARENT_PACKET_MAX)
		err = -EMSGSIZE;
	TAILQ_INSERT_TAIL(&p->jobs, job, entry);
	if (err) {
		job_end(p, job, -1, NULL);
		return err;
	}
	job->done = done;
	job->arg = arg;
	parent_work(p);
	return 0;
}

void parent_forget(struct parent *p, void *arg)
{
	struct fork_job *job, *next;

	for (job = TAILQ_FIRST(&p->jobs); job; job = next) {
		next = TAILQ_NEXT(job, entry);
		if (job->arg != arg)
			continue;
		job->done = NULL;
		if (!job->sent)
			job_end(p, job, -1, NULL);
	}
}

bool parent_identity(struct parent *p, void (*done)(void *arg, const char *message), void *arg)
{
	if (!p->ready)
		return false;
	p->identity_done = done;
	p->identity_arg = arg;
	p->identity_due = true;
	parent_work(p);
	return true;
}

void parent_identity_forget(struct parent *p)
{
	p->identity_done = NULL;
}
