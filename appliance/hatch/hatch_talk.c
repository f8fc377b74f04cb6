/* Messages between local clients and the kernel. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hatch_inner.h"

_Static_assert((int)LOCAL_SHELL == (int)JUPYTER_SHELL && (int)LOCAL_CONTROL == (int)JUPYTER_CONTROL &&
		       (int)LOCAL_STDIN == (int)JUPYTER_STDIN && (int)LOCAL_IOPUB == (int)JUPYTER_IOPUB,
	       "channels are those of the link");

/* --- from the kernel --- */

static struct asked **asked_by(struct hatch *h, const struct v1_part *parent)
{
	json_t *json = json_loadb(parent->bytes, parent->len, 0, NULL);
	const char *msg_id = json_string_value(json_object_get(json, "msg_id"));
	struct asked **at = msg_id ? asked_find(&h->asked, msg_id) : NULL;

	json_decref(json);
	return at && *at ? at : NULL;
}

/* False: not now. What nobody asks for any more is dropped. */
static bool give(struct hatch *h, const struct client_msg *m)
{
	enum local_channel channel = (enum local_channel)m->payload[0];
	struct v1_part part[V1_PARTS_MAX];
	size_t parts = jupyter_parts(m->payload, m->len, part);
	struct asked **at;

	if (channel == LOCAL_IOPUB)
		return local_send(h->local, channel, NULL, part, parts) != -EAGAIN;
	at = asked_by(h, &part[1]);
	if (!at)
		return true;
	local_send(h->local, channel, &(*at)->idents, part, parts);
	if (channel != LOCAL_STDIN)
		asked_done(&h->asked, at);
	return true;
}

static void waiting_drop(struct hatch *h)
{
	client_msg_unref(h->waiting);
	h->waiting = NULL;
}

/* Its clients took nothing for so long that the kernel went on without them. Others may be well. */
static void join_again(struct hatch *h)
{
	core_log("kernel %s: its local clients take nothing; output to them was dropped", h->kernel_id);
	waiting_drop(h);
	if (hatch_join(h) < 0)
		hatch_close(h);
}

static void on_turn(void *arg)
{
	struct hatch *h = arg;

	if (h->closing)
		return;
	if (!h->client && h->kernel_gone) {
		hatch_close(h);
		return;
	}
	if (!h->client)
		join_again(h);
	while (h->client) {
		if (!h->waiting)
			h->waiting = client_take(h->client, &h->number);
		if (!h->waiting || !give(h, h->waiting))
			break;
		waiting_drop(h);
		client_received(h->client, h->number);
	}
	if (!h->closing)
		local_read(h->local, h->client && client_reads(h->client));
}

static void on_wake(void *arg)
{
	struct hatch *h = arg;

	hub_turn_end(h->all->core->hub, &h->turn, on_turn, h);
}

static void on_end(void *arg, enum client_end why)
{
	struct hatch *h = arg;

	h->client = NULL;
	h->kernel_gone = why == CLIENT_KERNEL_GONE || why == CLIENT_STOPPED;
	local_read(h->local, false);
	on_wake(h);
}

static const struct client_ops client_ops = { .wake = on_wake, .end = on_end };

int hatch_join(struct hatch *h)
{
	struct client_hello hello = { .session = h->session };
	struct kernel *k = kernel_of_owner(h->all->core, h->owner, h->kernel_id);
	bool known;

	return k ? client_join(k, &hello, &client_ops, h, &h->client, &known) : -ENOENT;
}

/* --- from local clients --- */

static void on_message(const struct local_message *m, void *arg)
{
	struct hatch *h = arg;
	struct kernel *k = kernel_of_owner(h->all->core, h->owner, h->kernel_id);
	bool is_request = m->channel != LOCAL_STDIN;

	if (!h->client || !k)
		return;
	sandbox_prolong(k->sandbox);
	if (is_request && !asked_add(&h->asked, m))
		core_log("kernel %s: a request of a local client was dropped: out of memory", h->kernel_id);
	else if (client_message(h->client, (enum jupyter_channel)m->channel, m->part, m->parts) < 0)
		core_log("kernel %s: a message of a local client was dropped: its header is not complete",
			 h->kernel_id);
	if (h->client)
		local_read(h->local, client_reads(h->client));
}

static void on_dropped(const char *why, void *arg)
{
	struct hatch *h = arg;

	core_log("kernel %s: %s", h->kernel_id, why);
}

static void on_closed(void *arg)
{
	hatch_free(arg);
}

const struct local_ops hatch_local_ops = {
	.message = on_message,
	.writable = on_wake,
	.dropped = on_dropped,
	.closed = on_closed,
};
