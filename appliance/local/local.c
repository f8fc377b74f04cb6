#include "local.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/sock.h"
#include "local_inner.h"

_Static_assert((int)LOCAL_SHELL == (int)CHANNEL_SHELL && (int)LOCAL_CONTROL == (int)CHANNEL_CONTROL &&
		       (int)LOCAL_STDIN == (int)CHANNEL_STDIN && (int)LOCAL_IOPUB == (int)CHANNEL_IOPUB &&
		       (int)LOCAL_HB == (int)CHANNEL_HB,
	       "channels are those of a connection file");

/* Taken from one socket before the others have their turn. */
enum { LOCAL_BURST = 64 };

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

/* --- in --- */

static void drop(struct local *l, enum local_channel channel, const char *why)
{
	char sentence[160];

	snprintf(sentence, sizeof(sentence), "a message on the %s socket was dropped: %s", names[channel], why);
	l->ops->dropped(sentence, l->arg);
}

static void take_message(struct local *l, enum local_channel channel, struct frames *f)
{
	struct local_message m = { .channel = channel };
	struct wire_view v;
	json_t *header;
	size_t i;
	int err = wire_parse(&l->signer, f->slice, f->n, &v);

	if (err < 0) {
		drop(l, channel,
		     err == -EACCES ? "its signature is wrong" : "it is not laid out as a Jupyter message");
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
		drop(l, channel, "its header has no msg_type or msg_id");
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

/* Messages wait for whoever reads them; subscriptions for what is held, so that a greeting comes first. */
static bool takes(const struct local *l, enum local_channel channel)
{
	if (channel == LOCAL_HB)
		return true;
	return channel == LOCAL_IOPUB ? !l->output.first : l->reading;
}

/* True: there may be more. */
static bool drain(struct local *l, enum local_channel channel)
{
	struct frames f;
	int n, err;

	for (n = 0; n < LOCAL_BURST && !l->closing && takes(l, channel); n++) {
		err = sock_recv(l->sock[channel], &f);
		if (err == -E2BIG)
			continue;
		if (err < 0)
			return false;
		if (channel == LOCAL_HB)
			local_send_frames(l, channel, f.slice, f.n);
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

/* True: not all was taken that can be, do not sleep. */
static bool look(struct local *l)
{
	bool more = false;
	int i;

	for (i = 0; i < LOCAL_CHANNELS && !l->closing; i++) {
		if (!l->look[i] || !takes(l, (enum local_channel)i))
			continue;
		/* What is done with a message may use its socket again. */
		l->look[i] = false;
		l->look[i] |= drain(l, (enum local_channel)i);
	}
	for (i = 0; i < LOCAL_CHANNELS; i++)
		more |= l->look[i] && takes(l, (enum local_channel)i);
	return more;
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct local *l = prepare->data;
	bool more = look(l);

	if (l->closing)
		return;
	if (more)
		uv_idle_start(&l->again, on_again);
	else
		uv_idle_stop(&l->again);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct local *l = poll->data;

	(void)status;
	(void)events;
	l->look[poll - l->poll] = true;
}

void local_read(struct local *l, bool on)
{
	l->reading = on;
}

/* --- life --- */

/* Of one that did not come to be. */
static const struct local_ops no_ops;

static const int types[LOCAL_CHANNELS] = {
	[LOCAL_SHELL] = ZMQ_ROUTER, [LOCAL_CONTROL] = ZMQ_ROUTER, [LOCAL_STDIN] = ZMQ_ROUTER,
	[LOCAL_IOPUB] = ZMQ_XPUB,   [LOCAL_HB] = ZMQ_ROUTER,
};

static int sockets_open(struct local *l, const struct connection *c, char *why, size_t why_size)
{
	int i, fd, err, on = 1;
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
		l->poll[i].data = l;
		l->look[i] = true;
		uv_poll_start(&l->poll[i], UV_READABLE, on_poll);
	}
	/* A question to nobody is told, not dropped. */
	zmq_setsockopt(l->sock[LOCAL_STDIN], ZMQ_ROUTER_MANDATORY, &on, sizeof(on));
	return 0;
}

int local_open(uv_loop_t *loop, const struct connection *where, const struct local_ops *ops, void *arg,
	       struct local **ret, char *why, size_t why_size)
{
	struct local *l = calloc(1, sizeof(*l));
	int err = l ? session_init(&l->session) : -ENOMEM;

	if (!err)
		err = wire_signer_init(&l->signer, where->key, where->key_len);
	if (err < 0) {
		free(l);
		snprintf(why, why_size, "Out of memory.");
		return err;
	}
	l->loop = loop;
	l->ops = ops;
	l->arg = arg;
	l->reading = true;
	uv_prepare_init(loop, &l->prepare);
	uv_idle_init(loop, &l->again);
	uv_timer_init(loop, &l->retry);
	l->prepare.data = l->retry.data = l;
	uv_prepare_start(&l->prepare, on_prepare);
	l->zmq = zmq_ctx_new();
	err = sockets_open(l, where, why, why_size);
	if (err < 0) {
		/* It was never there. */
		l->ops = &no_ops;
		local_close(l);
		return err;
	}
	*ret = l;
	return 0;
}

int local_port(const struct local *l, enum local_channel channel)
{
	char endpoint[CONNECTION_ADDRESS_MAX];
	size_t size = sizeof(endpoint);
	const char *colon;

	if (zmq_getsockopt(l->sock[channel], ZMQ_LAST_ENDPOINT, endpoint, &size) < 0)
		return 0;
	colon = strrchr(endpoint, ':');
	return colon ? atoi(colon + 1) : 0;
}

static void part_closed(struct local *l)
{
	if (--l->parts > 0)
		return;
	held_free(&l->output);
	held_free(&l->questions);
	wire_signer_free(&l->signer);
	if (l->ops->closed)
		l->ops->closed(l->arg);
	free(l);
}

static void on_handle_closed(uv_handle_t *handle)
{
	part_closed(handle->data);
}

static void handle_close(struct local *l, uv_handle_t *handle)
{
	handle->data = l;
	l->parts++;
	uv_close(handle, on_handle_closed);
}

/* A second at most (SOCK_LINGER_MS). */
static void term_work(uv_work_t *work)
{
	struct local *l = work->data;

	zmq_ctx_term(l->zmq);
}

static void term_done(uv_work_t *work, int status)
{
	(void)status;
	part_closed(work->data);
}

void local_close(struct local *l)
{
	int i;

	if (!l)
		return;
	l->closing = true;
	l->parts = 1;
	for (i = 0; i < LOCAL_CHANNELS; i++) {
		if (!l->sock[i])
			continue;
		handle_close(l, (uv_handle_t *)&l->poll[i]);
		zmq_close(l->sock[i]);
	}
	handle_close(l, (uv_handle_t *)&l->prepare);
	handle_close(l, (uv_handle_t *)&l->again);
	handle_close(l, (uv_handle_t *)&l->retry);
	l->work.data = l;
	uv_queue_work(l->loop, &l->work, term_work, term_done);
}
