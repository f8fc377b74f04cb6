#include "spawn.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "request.h"

static void client_close(struct spawn *s, struct client *c)
{
	watch_close(s, &c->watch);
	sandbox_client_gone(s, c);
}

/* A client that does not read its replies is cut off; when it connects again
 * it hears of every ended sandbox. */
void client_reply(struct spawn *s, struct client *c, const struct spawn_reply *reply)
{
	if (c->watch.fd < 0)
		return;
	if (send(c->watch.fd, reply, sizeof(*reply), MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(*reply))
		client_close(s, c);
}

static void ended_event(struct spawn *s, struct client *c, const struct sandbox *b)
{
	struct spawn_reply event = { .version = SPAWN_VERSION, .verb = SPAWN_EVENT_ENDED };

	memcpy(event.id, b->id, sizeof(event.id));
	memcpy(event.reason, b->reason, sizeof(event.reason));
	client_reply(s, c, &event);
}

void client_broadcast_ended(struct spawn *s, const struct sandbox *b)
{
	for (int i = 0; i < SPAWN_CLIENTS_MAX; i++)
		ended_event(s, &s->clients[i], b);
}

static void stat_fill(const struct sandbox *b, struct spawn_reply *reply)
{
	struct cgroup_usage usage = { 0 };

	reply->running = b->state != SANDBOX_ENDED;
	if (b->state == SANDBOX_ENDED)
		memcpy(reply->reason, b->reason, sizeof(reply->reason));
	else if (cgroup_usage(&b->cgroup, &usage) == 0) {
		reply->memory_bytes = usage.memory_bytes;
		reply->cpu_usec = usage.cpu_usec;
	}
}

static int request_run(struct spawn *s, struct client *c, const struct spawn_request *request, const int *fds,
		       struct spawn_reply *reply)
{
	const struct pending asker = { c, request->serial, request->verb };
	struct sandbox *b = sandbox_find(s, request->id);

	if (request->verb == SPAWN_START)
		return sandbox_start(s, request, fds, &asker, reply->message);
	if (!b) {
		snprintf(reply->message, sizeof(reply->message), "carrel-spawn knows no sandbox %s.",
			 request->id);
		return -ENOENT;
	}
	switch (request->verb) {
	case SPAWN_STOP:
		return sandbox_stop(s, b, request->reason);
	case SPAWN_FREEZE:
	case SPAWN_THAW:
		/* A copy of its memory freezes and thaws it, too. */
		if (b->state == SANDBOX_ENDED || b->copy.fd >= 0)
			return b->state == SANDBOX_ENDED ? -ESRCH : -EBUSY;
		return cgroup_freeze(&b->cgroup, request->verb == SPAWN_FREEZE);
	case SPAWN_PAGES:
		return pages_start(s, b, fds, &asker, reply->message);
	case SPAWN_STAT:
		stat_fill(b, reply);
		return 0;
	case SPAWN_DEADLINE:
		return sandbox_deadline(s, b, request->deadline_boottime_ns, &asker);
	default:
		return sandbox_forget(s, b);
	}
}

/* The descriptors in the order of enum spawn_fd, by the mask. */
static void files_by_number(const struct spawn_request *request, const int *received, int *ret_fds)
{
	const bool takes = request->verb == SPAWN_START || request->verb == SPAWN_PAGES;

	for (int i = 0, n = 0; i < SPAWN_FD_COUNT; i++)
		ret_fds[i] = takes && (request->fds_mask & (1u << i)) ? received[n++] : -1;
}

static void request_handle(struct spawn *s, struct client *c, const struct spawn_request *request, size_t n,
			   const int *received, unsigned nfds)
{
	struct spawn_reply reply = { .version = SPAWN_VERSION };
	int fds[SPAWN_FD_COUNT], err;

	err = request_check(request, n, nfds, reply.message);
	if (!err) {
		files_by_number(request, received, fds);
		err = request_check_files(request, fds, reply.message);
	}
	if (n == sizeof(*request)) {
		reply.verb = request->verb;
		reply.serial = request->serial;
		if (request_id_valid(request->id, sizeof(request->id)))
			memcpy(reply.id, request->id, sizeof(reply.id));
	}
	if (!err)
		err = request_run(s, c, request, fds, &reply);
	if (err > 0)
		return;
	if (err < 0 && !reply.message[0])
		snprintf(reply.message, sizeof(reply.message), "carrel-spawn cannot do it: %s.",
			 strerror(-err));
	reply.error = err;
	client_reply(s, c, &reply);
}

/* Takes at most SPAWN_FD_COUNT descriptors; the kernel closes what does not fit. */
static unsigned received_fds(struct msghdr *header, int *ret_fds)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(header);
	unsigned n = 0;

	if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (unsigned)((control->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(ret_fds, CMSG_DATA(control), n * sizeof(int));
	return n;
}

static void client_ready(struct spawn *s, struct watch *w, uint32_t events)
{
	struct client *c = (struct client *)w;
	union {
		char bytes[CMSG_SPACE(SPAWN_FD_COUNT * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct spawn_request request = { 0 };
	struct iovec iov = { &request, sizeof(request) };
	struct msghdr header = { .msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes) };
	int fds[CMSG_SPACE(SPAWN_FD_COUNT * sizeof(int)) / sizeof(int)];
	unsigned nfds;
	ssize_t n;

	(void)events;
	n = recvmsg(w->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_close(s, c);
		return;
	}
	nfds = received_fds(&header, fds);
	if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		n = 0; /* of no length that is known */
	request_handle(s, c, &request, (size_t)n, fds, nfds);
	for (unsigned i = 0; i < nfds; i++)
		close(fds[i]);
}

static bool peer_allowed(const struct spawn *s, int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return false;
	return peer.uid == 0 || peer.uid == s->options.client_uid;
}

static struct client *client_free_slot(struct spawn *s)
{
	for (int i = 0; i < SPAWN_CLIENTS_MAX; i++)
		if (s->clients[i].watch.fd < 0)
			return &s->clients[i];
	return NULL;
}

void client_accept(struct spawn *s, struct watch *w, uint32_t events)
{
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *c = client_free_slot(s);

	(void)events;
	if (fd < 0)
		return;
	if (!c || !peer_allowed(s, fd)) {
		fprintf(stderr, "carrel-spawn: refused a connection: %s\n",
			c ? "it is not the service user's" : "there are too many");
		close(fd);
		return;
	}
	c->watch = (struct watch){ .fd = fd, .ready = client_ready };
	if (watch_add(s, &c->watch) != 0) {
		close(fd);
		c->watch.fd = -1;
		return;
	}
	for (unsigned i = 0; i < SPAWN_SANDBOXES_MAX; i++)
		if (s->sandboxes[i] && s->sandboxes[i]->state == SANDBOX_ENDED)
			ended_event(s, c, s->sandboxes[i]);
}
