#include "qmp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connect.h"

struct command {
	qmp_done done;
	void *arg;
};

struct qmp {
	uv_poll_t poll;
	uv_timer_t timer;
	int fd;
	int open_handles; /* of poll and timer; memory goes with the last */
	const struct qmp_ops *ops;
	void *arg;
	struct qmp_reader reader;
	struct command pending[QMP_PENDING_MAX];
	unsigned pending_count;
	uint64_t second; /* of the line count */
	unsigned lines;
	int greeted, ready, over;
};

static void handle_closed(uv_handle_t *handle)
{
	struct qmp *q = handle->data;

	if (--q->open_handles > 0)
		return;
	close(q->fd);
	free(q);
}

static void pending_fail(struct qmp *q, int err, const char *message)
{
	while (q->pending_count > 0 && !q->over) {
		struct command c = q->pending[0];

		memmove(q->pending, q->pending + 1, --q->pending_count * sizeof(c));
		c.done(err, NULL, message, c.arg);
	}
}

static void qmp_fail(struct qmp *q, int err, const char *what)
{
	char message[160];

	if (q->over)
		return;
	snprintf(message, sizeof(message), "The connection to QEMU's monitor %s.", what);
	uv_poll_stop(&q->poll);
	uv_timer_stop(&q->timer);
	pending_fail(q, -EPIPE, message);
	if (q->over)
		return;
	q->over = 1;
	q->ops->closed(err, message, q->arg);
}

static void timer_fired(uv_timer_t *timer)
{
	struct qmp *q = timer->data;

	qmp_fail(q, -ETIMEDOUT, "gave no answer in time");
}

/* Runs while an answer is owed. */
static void timer_update(struct qmp *q)
{
	if (q->over)
		return;
	if (q->pending_count > 0 || !q->ready)
		uv_timer_start(&q->timer, timer_fired, QMP_TIMEOUT_MS, 0);
	else
		uv_timer_stop(&q->timer);
}

static int reply_handle(struct qmp *q, const json_t *object)
{
	const json_t *error = json_object_get(object, "error");
	const char *desc = json_string_value(json_object_get(error, "desc"));
	struct command c;

	if (q->pending_count == 0)
		return -EBADMSG;
	c = q->pending[0];
	memmove(q->pending, q->pending + 1, --q->pending_count * sizeof(c));
	timer_update(q);
	c.done(error ? -EIO : 0, json_object_get(object, "return"), desc ? desc : "", c.arg);
	return 0;
}

static void capabilities_done(int err, const json_t *value, const char *message, void *arg)
{
	struct qmp *q = arg;

	(void)value;
	(void)message;
	if (err == -EPIPE)
		return;
	if (err) {
		qmp_fail(q, err, "was refused by QEMU");
		return;
	}
	q->ready = 1;
	timer_update(q);
	q->ops->ready(q->arg);
}

static int lines_counted(struct qmp *q)
{
	uint64_t second = uv_now(q->poll.loop) / 1000;

	if (second != q->second)
		q->lines = 0;
	q->second = second;
	return ++q->lines > QMP_LINES_PER_SECOND_MAX ? -EOVERFLOW : 0;
}

static int message_handle(json_t *object, void *arg)
{
	struct qmp *q = arg;
	const char *event = json_string_value(json_object_get(object, "event"));

	if (q->over)
		return -ESHUTDOWN;
	if (lines_counted(q) != 0)
		return -EOVERFLOW;
	if (!q->greeted) {
		q->greeted = 1;
		return json_object_get(object, "QMP")
			       ? qmp_execute(q, "qmp_capabilities", NULL, -1, capabilities_done, q)
			       : -EBADMSG;
	}
	if (event) {
		if (q->ready)
			q->ops->event(event, json_object_get(object, "data"), q->arg);
		return 0;
	}
	if (json_object_get(object, "return") || json_object_get(object, "error"))
		return reply_handle(q, object);
	return -EBADMSG;
}

static const char *failure_of(int err)
{
	switch (err) {
	case -EMSGSIZE:
		return "carried a message that is too long";
	case -EBADMSG:
		return "carried something that is not QMP";
	case -EOVERFLOW:
		return "carried a flood of messages";
	default:
		return "was lost";
	}
}

static void poll_ready(uv_poll_t *poll, int status, int events)
{
	struct qmp *q = poll->data;
	char bytes[8192];
	ssize_t n = status < 0 ? 0 : recv(q->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	int err;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	err = n <= 0 ? -EPIPE : qmp_reader_feed(&q->reader, bytes, (size_t)n, message_handle, q);
	if (err && !q->over)
		qmp_fail(q, err, failure_of(err));
}

int qmp_new(uv_loop_t *loop, const char *path, const struct qmp_ops *ops, void *arg, struct qmp **ret)
{
	struct qmp *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	q->ops = ops;
	q->arg = arg;
	q->fd = connect_path(path, SOCK_STREAM);
	err = q->fd < 0 ? q->fd : uv_poll_init(loop, &q->poll, q->fd);
	if (err) {
		if (q->fd >= 0)
			close(q->fd);
		free(q);
		return err;
	}
	uv_timer_init(loop, &q->timer);
	q->open_handles = 2;
	q->poll.data = q->timer.data = q;
	uv_poll_start(&q->poll, UV_READABLE, poll_ready);
	timer_update(q);
	*ret = q;
	return 0;
}

static int send_text(int socket_fd, const char *text, size_t n, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)text, n };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (fd >= 0) {
		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	sent = sendmsg(socket_fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0)
		return -errno;
	/* A few hundred bytes fit whole, or the peer has stopped reading. */
	return (size_t)sent == n ? 0 : -EPIPE;
}

int qmp_execute(struct qmp *q, const char *command, json_t *arguments, int fd, qmp_done done, void *arg)
{
	json_t *object = json_pack("{s:s}", "execute", command);
	char text[1024];
	size_t n = 0;
	int err = 0;

	if (object && arguments)
		json_object_set(object, "arguments", arguments);
	json_decref(arguments);
	if (q->over || q->pending_count == QMP_PENDING_MAX)
		err = q->over ? -EPIPE : -EBUSY;
	else if (!object || (n = json_dumpb(object, text, sizeof(text) - 1, JSON_COMPACT)) == 0 ||
		 n > sizeof(text) - 1)
		err = -EINVAL;
	json_decref(object);
	if (err)
		return err;
	text[n++] = '\n';
	err = send_text(q->fd, text, n, fd);
	if (err)
		return err;
	q->pending[q->pending_count++] = (struct command){ done, arg };
	timer_update(q);
	return 0;
}

void qmp_free(struct qmp *q)
{
	if (!q)
		return;
	q->over = 1;
	uv_close((uv_handle_t *)&q->poll, handle_closed);
	uv_close((uv_handle_t *)&q->timer, handle_closed);
}
