#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include "jupyter_inner.h"
#include "limits.h"
#include "util.h"

static void *context(void)
{
	static void *ctx;

	if (!ctx) {
		ctx = zmq_ctx_new();
		if (!ctx)
			abort();
		/* Beside the agent's own thread, not in front of it. */
		zmq_ctx_set(ctx, ZMQ_THREAD_SCHED_POLICY, SCHED_BATCH);
	}
	return ctx;
}

static void handle_free(uv_handle_t *handle)
{
	free(handle);
}

static void socket_event(uv_poll_t *poll, int status, int events)
{
	struct jupyter_socket *s = poll->data;

	(void)status, (void)events;
	if (!jupyter_may_read(s)) {
		/* It would go on telling; jupyter_kick() listens again. */
		uv_poll_stop(poll);
		s->deaf = true;
	}
	/* libzmq's thread told of a burst's first message: let it bring the others. */
	sched_yield();
	/* A reply's output was sent before it. */
	s->j->socket[WIRE_IOPUB].look = s->look = true;
	jupyter_turn(s->j);
}

void jupyter_socket_listen(struct jupyter_socket *s)
{
	if (s->deaf && s->poll)
		uv_poll_start(s->poll, UV_READABLE, socket_event);
	s->deaf = false;
}

bool jupyter_socket_look(struct jupyter_socket *s)
{
	bool gone = false;
	zmq_msg_t part;

	for (;;) {
		uint16_t event = 0;
		bool more;

		zmq_msg_init(&part);
		if (zmq_msg_recv(&part, s->monitor, ZMQ_DONTWAIT) < 0)
			break;
		if (zmq_msg_size(&part) >= sizeof(event))
			memcpy(&event, zmq_msg_data(&part), sizeof(event));
		more = zmq_msg_more(&part);
		zmq_msg_close(&part);
		if (more) { /* the address */
			zmq_msg_init(&part);
			zmq_msg_recv(&part, s->monitor, ZMQ_DONTWAIT);
			zmq_msg_close(&part);
		}
		if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
			s->connected = true;
		if (event == ZMQ_EVENT_DISCONNECTED)
			gone = true, s->connected = false;
	}
	zmq_msg_close(&part);
	return gone;
}

static void monitor_event(uv_poll_t *poll, int status, int events)
{
	struct jupyter_socket *s = poll->data;

	(void)status, (void)events;
	if (jupyter_socket_look(s))
		s->j->ops->disconnected(s->j, s->j->arg);
	else if (s->connected)
		s->j->ops->connected(s->j, s->j->arg);
}

static uv_poll_t *poll_zmq(uv_loop_t *loop, void *zmq, uv_poll_cb event, void *data)
{
	uv_poll_t *poll = xcalloc(1, sizeof(*poll));
	int fd = -1;
	size_t size = sizeof(fd);

	poll->data = data;
	if (zmq_getsockopt(zmq, ZMQ_FD, &fd, &size) < 0 || uv_poll_init(loop, poll, fd) < 0) {
		free(poll);
		return NULL;
	}
	uv_poll_start(poll, UV_READABLE, event);
	return poll;
}

static int monitor_open(struct jupyter_socket *s)
{
	static unsigned serial;
	char address[48];
	int zero = 0;

	snprintf(address, sizeof(address), "inproc://monitor-%u", ++serial);
	if (zmq_socket_monitor(s->zmq, address, ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) < 0)
		return -errno;
	s->monitor = zmq_socket(context(), ZMQ_PAIR);
	if (!s->monitor)
		return -errno;
	zmq_setsockopt(s->monitor, ZMQ_LINGER, &zero, sizeof(zero));
	if (zmq_connect(s->monitor, address) < 0)
		return -errno;
	s->monitor_poll = poll_zmq(s->j->loop, s->monitor, monitor_event, s);
	return s->monitor_poll ? 0 : -EMFILE;
}

int jupyter_socket_open(struct jupyter *j, enum wire_channel ch, const char *address, int port)
{
	struct jupyter_socket *s = &j->socket[ch];
	int zero = 0, reconnect = JUPYTER_RECONNECT_MS, ahead = JUPYTER_READ_AHEAD,
	    send_ahead = JUPYTER_SEND_AHEAD;
	int64_t part_max = JUPYTER_PART_MAX;
	char *full;
	int err, rc;

	s->zmq = zmq_socket(context(), ch == WIRE_IOPUB ? ZMQ_SUB : ZMQ_DEALER);
	if (!s->zmq)
		return -errno;
	zmq_setsockopt(s->zmq, ZMQ_LINGER, &zero, sizeof(zero));
	zmq_setsockopt(s->zmq, ZMQ_RECONNECT_IVL, &reconnect, sizeof(reconnect));
	zmq_setsockopt(s->zmq, ZMQ_RCVHWM, &ahead, sizeof(ahead));
	zmq_setsockopt(s->zmq, ZMQ_SNDHWM, &send_ahead, sizeof(send_ahead));
	zmq_setsockopt(s->zmq, ZMQ_MAXMSGSIZE, &part_max, sizeof(part_max));
	if (ch == WIRE_IOPUB)
		zmq_setsockopt(s->zmq, ZMQ_SUBSCRIBE, "", 0);
	else /* one identity: input_request comes on stdin to whom asked on shell */
		zmq_setsockopt(s->zmq, ZMQ_ROUTING_ID, j->session, SESSION_DIGITS);
	err = monitor_open(s);
	if (err)
		return err;
	full = xasprintf("%s-%d", address, port);
	rc = zmq_connect(s->zmq, full);
	err = rc < 0 ? -errno : 0;
	free(full);
	if (err)
		return err;
	s->poll = poll_zmq(j->loop, s->zmq, socket_event, s);
	return s->poll ? 0 : -EMFILE;
}

void jupyter_socket_close(struct jupyter_socket *s)
{
	if (s->poll)
		uv_close((uv_handle_t *)s->poll, handle_free);
	if (s->monitor_poll)
		uv_close((uv_handle_t *)s->monitor_poll, handle_free);
	if (s->zmq) {
		zmq_socket_monitor(s->zmq, NULL, 0);
		zmq_close(s->zmq);
	}
	if (s->monitor)
		zmq_close(s->monitor);
	s->zmq = s->monitor = NULL;
	s->poll = s->monitor_poll = NULL;
}

bool jupyter_connected(const struct jupyter *j)
{
	int ch;

	for (ch = 0; ch < WIRE_CHANNELS; ch++)
		if (!j->socket[ch].connected)
			return false;
	return true;
}

bool jupyter_drained(struct jupyter *j)
{
	int ch, events = 0;
	size_t size = sizeof(events);

	for (ch = 0; ch < WIRE_CHANNELS; ch++) {
		struct jupyter_socket *s = &j->socket[ch];

		/* The monitor first: what it saw the end of is in the socket by now. */
		jupyter_socket_look(s);
		if (s->connected)
			return false;
		if (zmq_getsockopt(s->zmq, ZMQ_EVENTS, &events, &size) < 0 || (events & ZMQ_POLLIN))
			return false;
	}
	return true;
}
