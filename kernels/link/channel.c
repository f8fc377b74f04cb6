#include "channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "channel_private.h"

void channel_enter(struct channel *c)
{
	c->depth++;
}

void channel_leave(struct channel *c)
{
	if (--c->depth > 0 || !c->freed)
		return;
	retain_free(&c->out);
	channel_input_reset(c);
	free(c);
}

/* Lets the stream go without a word to the user. */
static void channel_forget(struct channel *c, bool reset)
{
	static const struct link_stream_ops nobody;
	struct link_stream *st = c->st;

	c->st = NULL;
	c->attached = false;
	c->next = NULL;
	c->next_off = 0;
	c->control_off = c->control_len = 0;
	c->hello_due = false;
	channel_input_reset(c);
	if (st && reset) {
		link_stream_bind(st, &nobody, NULL);
		link_reset(st);
	}
}

void channel_detach(struct channel *c, int err, bool reset)
{
	int status = c->status;

	if (!c->st)
		return;
	channel_enter(c);
	channel_forget(c, reset);
	c->status = 0;
	if (c->ops.detached)
		c->ops.detached(c, err, status, c->arg);
	if (!c->freed)
		channel_settle_full(c);
	channel_leave(c);
}

static void on_response(struct link_stream *st, int status, void *arg)
{
	struct channel *c = arg;

	if (st != c->st || status == 200)
		return;
	c->status = status;
	channel_detach(c, -ECONNREFUSED, true);
}

static void on_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	struct channel *c = arg;

	if (st == c->st)
		channel_input(c, bytes, len);
}

static void on_eof(struct link_stream *st, void *arg)
{
	struct channel *c = arg;

	if (st == c->st)
		link_end(st);
}

static void on_writable(struct link_stream *st, void *arg)
{
	struct channel *c = arg;

	if (st != c->st)
		return;
	channel_enter(c);
	channel_flush(c);
	channel_leave(c);
}

static void on_closed(struct link_stream *st, int err, void *arg)
{
	struct channel *c = arg;

	if (st == c->st)
		channel_detach(c, err, false);
}

static const struct link_stream_ops channel_stream_ops = {
	.response = on_response,
	.data = on_data,
	.eof = on_eof,
	.writable = on_writable,
	.closed = on_closed,
};

struct channel *channel_new(enum channel_policy policy, const struct channel_ops *ops, void *arg)
{
	struct channel *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->policy = policy;
	c->ops = *ops;
	c->arg = arg;
	return c;
}

void channel_free(struct channel *c)
{
	if (!c || c->freed)
		return;
	channel_enter(c);
	c->ops = (struct channel_ops){ 0 };
	channel_forget(c, true);
	c->freed = true;
	channel_leave(c);
}

void channel_restore(struct channel *c, uint64_t received, uint64_t sent)
{
	c->received = c->safe = received;
	c->sent = c->exposed = sent;
}

static void channel_begin(struct channel *c, struct link_stream *st)
{
	c->st = st;
	c->generation++;
	c->status = 0;
	c->safe_sent = 0;
	c->hello_due = true;
	channel_flush(c);
}

int channel_connect(struct channel *c, struct link *l, const char *path)
{
	struct link_stream *st;
	int err;

	channel_forget(c, true);
	err = link_open(l, "POST", path, true, &channel_stream_ops, c, &st);
	if (err)
		channel_settle_full(c);
	else
		channel_begin(c, st);
	return err;
}

int channel_accept(struct channel *c, struct link_stream *st)
{
	int err;

	channel_forget(c, true);
	err = link_respond(st, 200, "application/octet-stream", -1);
	if (err) {
		channel_settle_full(c);
		return err;
	}
	link_stream_bind(st, &channel_stream_ops, c);
	channel_begin(c, st);
	return 0;
}

void channel_pause(struct channel *c, bool paused)
{
	if (c->paused == paused)
		return;
	c->paused = paused;
	if (!paused)
		channel_input_resume(c);
}

bool channel_full(const struct channel *c)
{
	return c->full;
}

bool channel_is_attached(const struct channel *c)
{
	return c->attached;
}

uint64_t channel_received(const struct channel *c)
{
	return c->received;
}

uint64_t channel_sent(const struct channel *c)
{
	return c->sent;
}

uint64_t channel_acked(const struct channel *c)
{
	return c->acked;
}

uint64_t channel_delivered(const struct channel *c)
{
	return c->delivered;
}
