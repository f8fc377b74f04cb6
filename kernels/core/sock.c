#include "core/sock.h"

#include <errno.h>

static int set_int(void *sock, int option, int value)
{
	return zmq_setsockopt(sock, option, &value, sizeof(value));
}

void *sock_bind(void *zctx, int type, const char *address)
{
	void *sock = zmq_socket(zctx, type);
	int64_t frame_max = SOCK_FRAME_MAX;
	int err;

	if (!sock)
		return NULL;
	set_int(sock, ZMQ_LINGER, SOCK_LINGER_MS);
	zmq_setsockopt(sock, ZMQ_MAXMSGSIZE, &frame_max, sizeof(frame_max));
	if (type == ZMQ_ROUTER) {
		/* A client that reconnects keeps its identity, and replies are
		 * never dropped for want of room. */
		set_int(sock, ZMQ_ROUTER_HANDOVER, 1);
		set_int(sock, ZMQ_SNDHWM, 0);
	}
	if (type == ZMQ_XPUB) {
		set_int(sock, ZMQ_SNDHWM, SOCK_XPUB_HWM);
		set_int(sock, ZMQ_XPUB_NODROP, 1);
		/* Else a message may leave between a subscription and its greeting. */
		set_int(sock, ZMQ_XPUB_MANUAL, 1);
	}
	if (zmq_bind(sock, address) == 0)
		return sock;
	err = errno;
	zmq_close(sock);
	errno = err;
	return NULL;
}

bool sock_subscribe(void *sock, const void *frame, size_t len)
{
	const unsigned char *bytes = frame;

	if (len < 1 || bytes[0] > 1)
		return false;
	zmq_setsockopt(sock, bytes[0] ? ZMQ_SUBSCRIBE : ZMQ_UNSUBSCRIBE, bytes + 1, len - 1);
	return bytes[0];
}

static int recv_part(void *sock, struct frames *f)
{
	zmq_msg_t *msg = &f->msg[f->n];

	zmq_msg_init(msg);
	while (zmq_msg_recv(msg, sock, ZMQ_DONTWAIT) < 0) {
		if (errno == EINTR)
			continue;
		zmq_msg_close(msg);
		return -errno;
	}
	f->slice[f->n] = (struct slice){ zmq_msg_data(msg), zmq_msg_size(msg) };
	f->n++;
	return 0;
}

int sock_recv(void *sock, struct frames *ret)
{
	bool dropped = false;
	int err;

	ret->n = 0;
	do {
		if (ret->n == WIRE_FRAMES_MAX) {
			frames_free(ret);
			dropped = true;
		}
		err = recv_part(sock, ret);
		if (err) {
			frames_free(ret);
			return err;
		}
	} while (zmq_msg_more(&ret->msg[ret->n - 1]));
	if (!dropped)
		return 0;
	frames_free(ret);
	return -E2BIG;
}

void frames_free(struct frames *f)
{
	while (f->n > 0)
		zmq_msg_close(&f->msg[--f->n]);
}

int sock_send(void *sock, const struct slice *frame, size_t n, bool wait)
{
	size_t i;
	int flags;

	for (i = 0; i < n; i++) {
		/* The first frame is refused or the whole message is taken. */
		flags = (i + 1 < n ? ZMQ_SNDMORE : 0) | (wait || i > 0 ? 0 : ZMQ_DONTWAIT);
		while (zmq_send(sock, frame[i].data, frame[i].len, flags) < 0) {
			if (errno != EINTR)
				return -errno;
		}
	}
	return 0;
}
