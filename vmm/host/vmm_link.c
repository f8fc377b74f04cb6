#include "vmm_link.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connect.h"

struct vmm_link {
	uv_poll_t poll;
	int fd;
	const struct vmm_link_ops *ops;
	void *arg;
	uint64_t serial;
	bool over; /* closed() was called, or it is being freed */
};

static void close_with(struct vmm_link *l, int err, const char *message)
{
	if (l->over)
		return;
	l->over = true;
	uv_poll_stop(&l->poll);
	l->ops->closed(err, message, l->arg);
}

static bool reply_valid(const struct control_reply *r, ssize_t n)
{
	return n == (ssize_t)sizeof(*r) && r->version == CONTROL_VERSION && r->error <= 0 &&
	       memchr(r->message, '\0', sizeof(r->message)) != NULL;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct vmm_link *l = poll->data;
	struct control_reply reply;
	ssize_t n;

	(void)events;
	n = status < 0 ? 0 : recv(l->fd, &reply, sizeof(reply), MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		close_with(l, -EPIPE, "carrel-vmm closed its control socket.");
	else if (!reply_valid(&reply, n))
		close_with(l, -EPROTO, "carrel-vmm said what is not its protocol.");
	else
		l->ops->reply(&reply, l->arg);
}

int vmm_link_new(uv_loop_t *loop, const char *path, const struct vmm_link_ops *ops, void *arg, struct vmm_link **ret)
{
	struct vmm_link *l = calloc(1, sizeof(*l));
	int fd;

	if (!l)
		return -ENOMEM;
	fd = connect_path(path, SOCK_SEQPACKET);
	if (fd < 0) {
		free(l);
		return fd;
	}
	*l = (struct vmm_link){ .fd = fd, .ops = ops, .arg = arg };
	uv_poll_init(loop, &l->poll, fd);
	l->poll.data = l;
	uv_poll_start(&l->poll, UV_READABLE, on_readable);
	*ret = l;
	return 0;
}

int vmm_link_ask(struct vmm_link *l, struct control_request *request, const int files[CONTROL_FILES])
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(CONTROL_FILES * sizeof(int))];
	} rights = { .bytes = { 0 } };
	struct iovec iov = { request, sizeof(*request) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[CONTROL_FILES];
	unsigned n = 0;

	request->version = CONTROL_VERSION;
	request->serial = ++l->serial;
	request->files = 0;
	for (unsigned i = 0; i < CONTROL_FILES; i++) {
		if (files[i] < 0)
			continue;
		fds[n++] = files[i];
		request->files |= 1u << i;
	}
	if (n > 0) {
		struct cmsghdr *c = &rights.align;

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
		msg.msg_control = rights.bytes;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	if (l->over)
		return -EPIPE;
	return sendmsg(l->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void on_closed(uv_handle_t *handle)
{
	struct vmm_link *l = handle->data;

	close(l->fd);
	free(l);
}

void vmm_link_free(struct vmm_link *l)
{
	if (!l)
		return;
	l->over = true;
	uv_close((uv_handle_t *)&l->poll, on_closed);
}
