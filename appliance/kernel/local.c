#include "local.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/connection.h"
#include "core/message.h"
#include "core/sock.h"

_Static_assert((int)LOCAL_SHELL == (int)CHANNEL_SHELL && (int)LOCAL_CONTROL == (int)CHANNEL_CONTROL &&
		       (int)LOCAL_STDIN == (int)CHANNEL_STDIN && (int)LOCAL_IOPUB == (int)CHANNEL_IOPUB &&
		       (int)LOCAL_HB == (int)CHANNEL_HB,
	       "channels are those of a connection file");

enum {
	/* Taken from one socket before the others have their turn. */
	LOCAL_BURST = 64,
	/* While a subscriber takes no more: ZeroMQ has no edge for that on an XPUB that is not read. */
	LOCAL_RETRY_MS = 10,
};

struct local {
	uv_loop_t *loop;
	void *zmq;
	void *sock[LOCAL_CHANNELS];
	uv_poll_t poll[LOCAL_CHANNELS];
	uv_prepare_t prepare;
	uv_idle_t again; /* a burst left something: no sleep before the next */
	uv_timer_t retry;
	struct wire_signer signer;
	struct session session;
	const struct local_ops *ops;
	void *arg;
	bool closing;
};

static const char *const names[LOCAL_CHANNELS] = { "shell", "control", "stdin", "iopub", "heartbeat" };

const char *local_channel_name(enum local_channel channel)
{
	return names[channel];
}

enum local_channel local_channel_of(const char *name)
{
	int i;

	for (i = 0; i < LOCAL_HB; i++) {
		if (strcmp(name, names[i]) == 0)
			return (enum local_channel)i;
	}
	return LOCAL_CHANNELS;
}

int local_idents_copy(const struct slice *idents, size_t n, struct local_idents *ret)
{
	size_t size = 1, at = 0, i;

	for (i = 0; i < n; i++)
		size += idents[i].len;
	ret->bytes = malloc(size);
	if (!ret->bytes)
		return -ENOMEM;
	ret->n = n;
	for (i = 0; i < n; i++) {
		if (idents[i].len > 0)
			memcpy(ret->bytes + at, idents[i].data, idents[i].len);
		ret->slice[i] = (struct slice){ ret->bytes + at, idents[i].len };
		at += idents[i].len;
	}
	return 0;
}

void local_idents_free(struct local_idents *i)
{
	free(i->bytes);
	*i = (struct local_idents){ 0 };
}

/* --- out --- */

/* Only the first part of a message can find no room. */
static int send_frames(void *sock, const struct slice *frame, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		int flags = (i + 1 < n ? ZMQ_SNDMORE : 0) | (i == 0 ? ZMQ_DONTWAIT : 0);

		while (zmq_send(sock, frame[i].data, frame[i].len, flags) < 0) {
			if (errno != EINTR)
				return -errno;
		}
	}
	return 0;
}

static void on_retry(uv_timer_t *t)
{
	struct local *l = t->data;

	l->ops->writable(l->arg);
}

int local_send(struct local *l, enum local_channel channel, const struct local_idents *idents,
	       const struct v1_part *part, size_t parts)
{
	static const struct slice everybody = { "kernel", 6 };
	struct slice json[WIRE_PARTS], buffers[WIRE_BUFFERS_MAX];
	struct wire_packed packed;
	size_t i;
	int err;

	if (parts < WIRE_PARTS || parts - WIRE_PARTS > WIRE_BUFFERS_MAX)
		return -E2BIG;
	for (i = 0; i < WIRE_PARTS; i++)
		json[i] = (struct slice){ part[i].bytes, part[i].len };
	for (i = WIRE_PARTS; i < parts; i++)
		buffers[i - WIRE_PARTS] = (struct slice){ part[i].bytes, part[i].len };
	err = wire_pack(&l->signer, idents ? idents->slice : &everybody, idents ? idents->n : 1, json,
			buffers, parts - WIRE_PARTS, &packed);
	if (!err)
		err = send_frames(l->sock[channel], packed.frame, packed.n);
	if (err == -EAGAIN)
		uv_timer_start(&l->retry, on_retry, LOCAL_RETRY_MS, 0);
	return err;
}

int local_say(struct local *l, enum local_channel channel, const struct local_idents *idents,
	      const char *msg_type, const char *parent, size_t parent_len, const char *content)
{
	char header[MESSAGE_HEADER_MAX];
	struct v1_part part[V1_PARTS_MIN] = {
		{ header, 0 }, { parent, parent_len }, { "{}", 2 }, { content, 0 }
	};

	part[0].len = session_header(&l->session, msg_type, header);
	part[3].len = strlen(content);
	return local_send(l, channel, idents, part, V1_PARTS_MIN);
}

/* --- in --- */

static void take_message(struct local *l, enum local_channel channel, struct frames *f)
{
	struct local_message m = { .channel = channel };
	struct wire_view v;
	json_t *header;
	size_t i;
	int err = wire_parse(&l->signer, f->slice, f->n, &v);

	if (err < 0) {
		fprintf(stderr, "carrel kernel: a message on the %s socket was dropped: %s\n", names[channel],
			err == -EACCES ? "its signature is wrong"
				       : "it is not laid out as a Jupyter message");
		return;
	}
	header = json_loadb(v.part[WIRE_HEADER].data, v.part[WIRE_HEADER].len, 0, NULL);
	m.msg_type = json_string_value(json_object_get(header, "msg_type"));
	m.msg_id = json_string_value(json_object_get(header, "msg_id"));
	m.idents = v.idents;
	m.n_idents = v.n_idents;
	for (i = 0; i < WIRE_PARTS; i++)
		m.part[m.parts++] = (struct v1_part){ v.part[i].data, v.part[i].len };
	for (i = 0; i < v.n_buffers; i++)
		m.part[m.parts++] = (struct v1_part){ v.buffers[i].data, v.buffers[i].len };
	if (m.msg_type && m.msg_id && *m.msg_id)
		l->ops->message(&m, l->arg);
	else
		fprintf(stderr,
			"carrel kernel: a message on the %s socket was dropped: its header has no msg_type "
			"or msg_id\n",
			names[channel]);
	json_decref(header);
}

/* A subscription is answered, so that a client knows when it hears. */
static void take_subscription(struct local *l, const struct frames *f)
{
	const unsigned char *bytes = f->slice[0].data;
	struct local_idents topic = { .n = 0 };
	json_t *content;
	char *text;

	if (!sock_subscribe(l->sock[LOCAL_IOPUB], bytes, f->slice[0].len))
		return;
	content = json_pack("{s:s%}", "subscription", (const char *)bytes + 1, f->slice[0].len - 1);
	text = content ? json_dumps(content, JSON_COMPACT) : NULL;
	if (text) {
		struct slice one = { bytes + 1, f->slice[0].len - 1 };

		if (one.len > 0)
			topic = (struct local_idents){ .n = 1, .slice = { one } };
		local_say(l, LOCAL_IOPUB, &topic, "iopub_welcome", "{}", 2, text);
	}
	free(text);
	json_decref(content);
}

static bool drain(struct local *l, enum local_channel channel)
{
	struct frames f;
	int n, err;

	for (n = 0; n < LOCAL_BURST && !l->closing; n++) {
		err = sock_recv(l->sock[channel], &f);
		if (err == -E2BIG)
			continue;
		if (err < 0)
			return false;
		if (channel == LOCAL_HB)
			send_frames(l->sock[channel], f.slice, f.n);
		else if (channel == LOCAL_IOPUB)
			take_subscription(l, &f);
		else
			take_message(l, channel, &f);
		frames_free(&f);
	}
	return true;
}

static void on_again(uv_idle_t *idle)
{
	(void)idle;
}

/* ZeroMQ's descriptors tell of edges only, and any use of a socket may eat one:
 * so all are looked at before each sleep. */
static void on_prepare(uv_prepare_t *prepare)
{
	struct local *l = prepare->data;
	bool more = false;
	int i;

	for (i = 0; i < LOCAL_CHANNELS; i++)
		more |= drain(l, (enum local_channel)i);
	if (l->closing)
		return;
	if (more)
		uv_idle_start(&l->again, on_again);
	else
		uv_idle_stop(&l->again);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	(void)poll;
	(void)status;
	(void)events;
}

/* --- life --- */

static const int types[LOCAL_CHANNELS] = {
	[LOCAL_SHELL] = ZMQ_ROUTER, [LOCAL_CONTROL] = ZMQ_ROUTER, [LOCAL_STDIN] = ZMQ_ROUTER,
	[LOCAL_IOPUB] = ZMQ_XPUB,   [LOCAL_HB] = ZMQ_ROUTER,
};

static int sockets_open(struct local *l, const struct connection *c, char *why, size_t why_size)
{
	int i, fd, err;
	size_t size = sizeof(fd);

	for (i = 0; i < LOCAL_CHANNELS; i++) {
		l->sock[i] = sock_bind(l->zmq, types[i], c->address[i]);
		if (!l->sock[i]) {
			err = errno;
			snprintf(why, why_size, "The %s socket cannot be bound to %s: %s.", names[i],
				 c->address[i], zmq_strerror(err));
			return -err;
		}
		zmq_getsockopt(l->sock[i], ZMQ_FD, &fd, &size);
		uv_poll_init(l->loop, &l->poll[i], fd);
		uv_poll_start(&l->poll[i], UV_READABLE, on_poll);
	}
	return 0;
}

int local_open(uv_loop_t *loop, const char *connection_file, const struct local_ops *ops, void *arg,
	       struct local **ret, char *why, size_t why_size)
{
	struct local *l = calloc(1, sizeof(*l));
	struct connection c;
	int err = l ? connection_from_file(connection_file, &c, why, why_size) : -ENOMEM;

	if (!err)
		err = session_init(&l->session);
	if (!err)
		err = wire_signer_init(&l->signer, c.key, c.key_len);
	if (err < 0) {
		free(l);
		return err;
	}
	*l = (struct local){
		.loop = loop, .ops = ops, .arg = arg, .signer = l->signer, .session = l->session
	};
	uv_prepare_init(loop, &l->prepare);
	uv_idle_init(loop, &l->again);
	uv_timer_init(loop, &l->retry);
	l->prepare.data = l->retry.data = l;
	uv_prepare_start(&l->prepare, on_prepare);
	l->zmq = zmq_ctx_new();
	err = sockets_open(l, &c, why, why_size);
	if (err < 0) {
		local_close(l);
		return err;
	}
	*ret = l;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void local_close(struct local *l)
{
	int i;

	if (!l)
		return;
	l->closing = true;
	for (i = 0; i < LOCAL_CHANNELS; i++) {
		if (!l->sock[i])
			continue;
		uv_close((uv_handle_t *)&l->poll[i], NULL);
		zmq_close(l->sock[i]);
	}
	/* What was said last is delivered, a second at most (SOCK_LINGER_MS). */
	zmq_ctx_term(l->zmq);
	wire_signer_free(&l->signer);
	uv_close((uv_handle_t *)&l->prepare, NULL);
	uv_close((uv_handle_t *)&l->again, NULL);
	uv_close((uv_handle_t *)&l->retry, on_closed);
}
