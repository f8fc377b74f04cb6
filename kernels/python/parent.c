#include "python/parent.h"
#include "python/embed.h"
#include "python/pyjson.h"
#include "core/log.h"
#include "core/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct parent_state {
	struct python py;
	int signal_fd;
	sigset_t old_mask;
	pid_t children[PARENT_CHILDREN_MAX];
	size_t n_children;
};

/* ---- packets ---- */

static void send_packet(json_t *packet)
{
	char *text = packet ? json_dumps(packet, JSON_COMPACT) : NULL;

	json_decref(packet);
	if (!text || send(PARENT_FD, text, strlen(text), MSG_NOSIGNAL) < 0)
		log_line("parent: the agent was not told: %s", text ? strerror(errno) : "no memory");
	free(text);
}

static void take_fds(struct msghdr *msg, struct fork_request *f)
{
	struct cmsghdr *c;
	int fds[2], n, i;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), sizeof(int) * (size_t)(n < 2 ? n : 2));
		for (i = 0; i < n && i < 2; i++)
			*(i == 0 ? &f->stderr_fd : &f->cgroup_fd) = fds[i];
	}
}

static void close_fds(struct fork_request *f)
{
	if (f->stderr_fd >= 0)
		close(f->stderr_fd);
	if (f->cgroup_fd >= 0)
		close(f->cgroup_fd);
	json_decref(f->packet);
}

/* 0: a packet is in f; -EPIPE: the agent is gone; -EBADMSG: not JSON. */
static int recv_packet(struct fork_request *f)
{
	static char text[PARENT_PACKET_MAX];
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = { text, sizeof(text) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	json_error_t err;
	ssize_t n = recvmsg(PARENT_FD, &msg, MSG_CMSG_CLOEXEC);

	*f = (struct fork_request){ .stderr_fd = -1, .cgroup_fd = -1 };
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? -EAGAIN : -errno;
	if (n == 0)
		return -EPIPE;
	take_fds(&msg, f);
	if (!(msg.msg_flags & MSG_TRUNC))
		f->packet = json_loadb(text, (size_t)n, JSON_ALLOW_NUL, &err);
	if (f->packet)
		return 0;
	close_fds(f);
	return -EBADMSG;
}

/* ---- operations ---- */

static void do_identity(struct parent_state *p, const json_t *packet)
{
	PyObject *content = pyjson_to(packet);
	PyObject *result = content ? PyObject_CallMethod(p->py.kernel, "identity", "O", content) : NULL;
	char why[400];

	Py_XDECREF(content);
	if (result) {
		send_packet(json_pack("{s:s, s:b}", "op", "identity", "ok", 1));
		Py_DECREF(result);
		return;
	}
	python_error_text(why, sizeof(why));
	send_packet(json_pack("{s:s, s:b, s:s}", "op", "identity", "ok", 0, "message", why));
}

/* What the child wrote before it closed the pipe: "ok", a sentence, or nothing
 * when it died. */
static void read_ready(int fd, char *text, size_t size)
{
	size_t n = 0;
	ssize_t got;

	do {
		got = read(fd, text + n, size - 1 - n);
		if (got > 0)
			n += (size_t)got;
	} while (got > 0 || (got < 0 && errno == EINTR));
	text[n] = '\0';
}

static pid_t fork_child(struct parent_state *p, struct fork_request *f, int ready[2])
{
	pid_t pid;

	PyOS_BeforeFork();
	pid = fork();
	if (pid != 0) {
		PyOS_AfterFork_Parent();
		return pid;
	}
	PyOS_AfterFork_Child();
	close(ready[0]);
	close(p->signal_fd);
	sigprocmask(SIG_SETMASK, &p->old_mask, NULL);
	child_main(&p->py, f, ready[1]);
}

static void fork_failed(const char *id, const char *why)
{
	send_packet(json_pack("{s:s, s:s, s:s}", "op", "failed", "id", id, "message", why));
}

static void forget_child(struct parent_state *p, pid_t pid)
{
	size_t i;

	for (i = 0; i < p->n_children; i++) {
		if (p->children[i] == pid)
			p->children[i] = p->children[--p->n_children];
	}
}

/* The agent is gone: nobody could reach the kernels any more. */
static void kill_children(struct parent_state *p)
{
	while (p->n_children > 0)
		kill(p->children[--p->n_children], SIGKILL);
}

static void do_fork(struct parent_state *p, struct fork_request *f)
{
	const char *id = json_string_value(json_object_get(f->packet, "id"));
	char text[600];
	int ready[2], err;
	pid_t pid;

	if (!id || !json_is_object(json_object_get(f->packet, "connection"))) {
		fork_failed(id ? id : "", "a fork needs \"id\" and \"connection\"");
		return;
	}
	if (p->n_children == PARENT_CHILDREN_MAX) {
		fork_failed(id, "too many kernels of this language run already");
		return;
	}
	if (pipe2(ready, O_CLOEXEC) < 0) {
		fork_failed(id, strerror(errno));
		return;
	}
	pid = fork_child(p, f, ready);
	err = errno;
	close(ready[1]);
	if (pid < 0) {
		snprintf(text, sizeof(text), "no new process can be started: %s", strerror(err));
	} else {
		/* A client may connect as soon as it hears of the kernel. */
		read_ready(ready[0], text, sizeof(text));
	}
	close(ready[0]);
	if (pid > 0 && !strcmp(text, "ok")) {
		p->children[p->n_children++] = pid;
		send_packet(json_pack("{s:s, s:s, s:i}", "op", "forked", "id", id, "pid", (int)pid));
		return;
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	fork_failed(id, text[0] ? text : "the new process died before it was ready");
}

static void reap(struct parent_state *p)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(p->signal_fd, &info, sizeof(info)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		forget_child(p, pid);
		send_packet(json_pack("{s:s, s:i, s:i}", "op", "exited", "pid", (int)pid, "status", status));
	}
}

/* False when the agent is gone. */
static bool serve_packet(struct parent_state *p)
{
	struct fork_request f;
	int err = recv_packet(&f);
	const char *op;

	if (err == -EBADMSG)
		log_line("parent: a packet was not JSON, or too large, and was skipped");
	if (err)
		return err == -EAGAIN || err == -EBADMSG;
	op = json_string_value(json_object_get(f.packet, "op"));
	if (op && !strcmp(op, "fork"))
		do_fork(p, &f);
	else if (op && !strcmp(op, "identity"))
		do_identity(p, f.packet);
	else
		log_line("parent: the operation \"%.40s\" is not known", op ? op : "");
	close_fds(&f);
	return true;
}

/* ---- start ---- */

/* A home that is not the user's (root's, say) would be of no use to code that
 * runs as the user. */
static int go_home(void)
{
	const char *home = getenv("HOME");
	struct passwd *pw;
	struct stat st;

	if (home && stat(home, &st) == 0 && st.st_uid == PARENT_UID)
		return 0;
	pw = getpwuid(PARENT_UID);
	if (!pw)
		return 0;
	setenv("HOME", pw->pw_dir, 1);
	setenv("USER", pw->pw_name, 1);
	setenv("LOGNAME", pw->pw_name, 1);
	return chdir(pw->pw_dir) < 0 && chdir("/") < 0 ? -errno : 0;
}

/* Real and saved uid stay root's, so that code running as the user cannot
 * signal the parent; files it makes are the user's. */
static int become_parent(void)
{
	int err;

	if (getuid() != 0)
		return 0;
	err = go_home();
	if (err)
		return err;
	if (setgroups(0, NULL) || setresgid(PARENT_GID, PARENT_GID, PARENT_GID) ||
	    setresuid(0, PARENT_UID, 0))
		return -errno;
	return 0;
}

/* What the first kernel's sockets and signatures would load from files: done
 * here once, it is done for all. */
static void warm_core(void)
{
	struct slice part[WIRE_PARTS] = { { "", 0 }, { "", 0 }, { "", 0 }, { "", 0 } };
	struct wire_packed packed;
	struct wire_signer signer;

	/* zmq_ctx_new() asks for this one. */
	getprotobyname("pgm");
	if (wire_signer_init(&signer, "warm", 4))
		return;
	if (wire_pack(&signer, NULL, 0, part, NULL, 0, &packed))
		log_line("parent: signatures do not work");
	wire_signer_free(&signer);
}

static int watch_children(struct parent_state *p)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, &p->old_mask);
	p->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return p->signal_fd < 0 ? -errno : 0;
}

static int fail(const char *why)
{
	log_line("parent: %s", why);
	return 1;
}

int parent_main(void)
{
	struct parent_state p = { 0 };
	struct pollfd fds[2];
	char why[500];
	int err = become_parent();

	if (err)
		return fail(strerror(-err));
	fcntl(PARENT_FD, F_SETFD, FD_CLOEXEC);
	if (embed_start(&p.py, true, why, sizeof(why)))
		return fail(why);
	warm_core();
	err = watch_children(&p);
	if (err)
		return fail(strerror(-err));
	send_packet(json_pack("{s:s}", "op", "ready"));
	fds[0] = (struct pollfd){ .fd = PARENT_FD, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = p.signal_fd, .events = POLLIN };
	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return fail(strerror(errno));
		if (fds[1].revents)
			reap(&p);
		if (fds[0].revents && !serve_packet(&p)) {
			kill_children(&p);
			return 0;
		}
	}
}
