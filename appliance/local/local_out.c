/* Messages to local clients: at once, or held until their sockets take them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "local_inner.h"

/* While something is held: ZeroMQ has no edge for a subscriber that takes again, nor for a peer that
   connects. */
enum { LOCAL_RETRY_MS = 10 };

/* Only the first part of a message can find no room, or nobody. */
int local_send_frames(struct local *l, enum local_channel channel, const struct slice *frame, size_t n)
{
	size_t i;

	l->look[channel] = true;
	for (i = 0; i < n; i++) {
		int flags = (i + 1 < n ? ZMQ_SNDMORE : 0) | (i == 0 ? ZMQ_DONTWAIT : 0);

		while (zmq_send(l->sock[channel], frame[i].data, frame[i].len, flags) < 0) {
			if (errno != EINTR)
				return -errno;
		}
	}
	return 0;
}

static void held_again(struct local *l);

static void on_retry(uv_timer_t *t)
{
	held_again(t->data);
}

static int hold(struct local *l, struct held *h, const struct wire_packed *p)
{
	if (!held_add(h, p->frame, p->n, uv_now(l->loop)))
		return -ENOMEM;
	if (!uv_is_active((uv_handle_t *)&l->retry))
		uv_timer_start(&l->retry, on_retry, LOCAL_RETRY_MS, 0);
	return 0;
}

/* A question whose client never comes for it is forgotten: its cell waits until it is interrupted. */
static void questions_again(struct local *l)
{
	const struct slice *frame;
	uint64_t at;
	size_t n;
	int err;

	while ((frame = held_first(&l->questions, &n, &at)) != NULL) {
		err = local_send_frames(l, LOCAL_STDIN, frame, n);
		if (err == -EHOSTUNREACH && uv_now(l->loop) < at + LOCAL_QUESTION_MS)
			return;
		held_drop(&l->questions);
	}
}

static void output_again(struct local *l)
{
	const struct slice *frame;
	uint64_t at;
	size_t n;

	while ((frame = held_first(&l->output, &n, &at)) != NULL) {
		if (local_send_frames(l, LOCAL_IOPUB, frame, n) == -EAGAIN)
			break;
		held_drop(&l->output);
	}
	if (l->full && l->output.bytes < LOCAL_HELD_MAX) {
		l->full = false;
		l->ops->writable(l->arg);
	}
}

static void held_again(struct local *l)
{
	questions_again(l);
	output_again(l);
	if (l->questions.first || l->output.first)
		uv_timer_start(&l->retry, on_retry, LOCAL_RETRY_MS, 0);
}

static int publish(struct local *l, const struct wire_packed *p)
{
	int err = l->output.first ? -EAGAIN : local_send_frames(l, LOCAL_IOPUB, p->frame, p->n);

	return err == -EAGAIN ? hold(l, &l->output, p) : err;
}

static int give(struct local *l, enum local_channel channel, const struct local_idents *idents,
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
	if (err)
		return err;
	if (channel == LOCAL_IOPUB)
		return publish(l, &packed);
	err = local_send_frames(l, channel, packed.frame, packed.n);
	return err == -EHOSTUNREACH && channel == LOCAL_STDIN ? hold(l, &l->questions, &packed) : err;
}

int local_send(struct local *l, enum local_channel channel, const struct local_idents *idents,
	       const struct v1_part *part, size_t parts)
{
	if (channel == LOCAL_IOPUB && l->output.bytes >= LOCAL_HELD_MAX) {
		l->full = true;
		return -EAGAIN;
	}
	return give(l, channel, idents, part, parts);
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
	return give(l, channel, idents, part, V1_PARTS_MIN);
}

void local_say_state(struct local *l, const char *parent, size_t parent_len, const char *state)
{
	char content[48];

	snprintf(content, sizeof(content), "{\"execution_state\":\"%s\"}", state);
	local_say(l, LOCAL_IOPUB, NULL, "status", parent ? parent : "{}", parent ? parent_len : 2, content);
}
