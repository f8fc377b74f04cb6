/* An established WebSocket: messages in both directions, and their numbers. */
#include <stdlib.h>
#include <string.h>

#include "../store/audit.h"
#include "door_inner.h"

static void on_wake(void *arg)
{
	struct connection *c = arg;

	lws_callback_on_writable(c->wsi);
}

static void on_end(void *arg, enum client_end why)
{
	static const int statuses[] = {
		[CLIENT_REPLACED] = LWS_CLOSE_STATUS_NORMAL,
		[CLIENT_KERNEL_GONE] = LWS_CLOSE_STATUS_NORMAL,
		[CLIENT_TOO_SLOW] = LWS_CLOSE_STATUS_POLICY_VIOLATION,
		[CLIENT_STOPPED] = LWS_CLOSE_STATUS_GOINGAWAY,
	};
	struct connection *c = arg;

	c->client = NULL;
	c->close_status = statuses[why];
	if (why == CLIENT_TOO_SLOW)
		/* It takes nothing, not even that. */
		lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
	else
		lws_callback_on_writable(c->wsi);
}

static const struct client_ops connection_ops = { .wake = on_wake, .end = on_end };

static void prolong(const struct connection *c)
{
	struct sandbox *sb = sandbox_find(c->door->core, c->owner, c->sandbox_id);

	if (sb)
		sandbox_prolong(sb);
}

bool connection_open(struct connection *c)
{
	struct client_hello hello = { .session = c->session,
				      .key_id = c->key_id,
				      .resumes = c->resumes,
				      .received = c->received };
	struct kernel *k = connection_kernel(c);

	c->established = c->reading = true;
	if (!k || client_join(k, &hello, &connection_ops, c, &c->client, &c->known) < 0)
		return false;
	store_key_used(c->door->store, c->key_id, c->owner, NULL);
	c->told = client_count(c->client);
	c->hello_due = c->resumes && c->v1;
	prolong(c);
	lws_callback_on_writable(c->wsi);
	return true;
}

void connection_closed(struct connection *c)
{
	if (c->client)
		client_leave(c->client);
	c->client = NULL;
	prolong(c);
}

void connection_goodbye(struct connection *c, const unsigned char *in, size_t len)
{
	/* A page that is loaded again says 1001, and comes back for what it missed. */
	if (!c->client || len < 2 || (in[0] << 8 | in[1]) != LWS_CLOSE_STATUS_NORMAL)
		return;
	client_goodbye(c->client);
	c->client = NULL;
}

/* --- out --- */

static bool write_bytes(struct connection *c, unsigned char *bytes, size_t len, bool text)
{
	int n = bytes ? lws_write(c->wsi, bytes + LWS_PRE, len, text ? LWS_WRITE_TEXT : LWS_WRITE_BINARY)
		      : -1;

	free(bytes);
	return n >= 0;
}

/* On the channel "carrel". */
static bool write_own(struct connection *c, const char *type, json_t *content)
{
	char header[80];
	char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;
	struct v1_part part[V1_PARTS_MIN] = {
		{ .bytes = header }, { "{}", 2 }, { "{}", 2 }, { .bytes = text }
	};
	unsigned char *bytes = NULL;
	size_t len = 0;

	json_decref(content);
	if (text) {
		part[0].len = (size_t)snprintf(header, sizeof(header), "{\"msg_type\":\"%s\"}", type);
		part[3].len = strlen(text);
		len = v1_frame_size(DOOR_CHANNEL, part, V1_PARTS_MIN);
		bytes = malloc(LWS_PRE + len);
	}
	if (bytes)
		v1_frame_write(bytes + LWS_PRE, DOOR_CHANNEL, part, V1_PARTS_MIN);
	free(text);
	return write_bytes(c, bytes, len, false);
}

static bool write_hello(struct connection *c)
{
	c->hello_due = false;
	c->told = client_count(c->client);
	return write_own(c, "carrel_hello",
			 json_pack("{s:I,s:b}", "received", (json_int_t)c->told, "known", c->known));
}

static bool write_ack(struct connection *c)
{
	c->ack_due = false;
	c->told = client_count(c->client);
	return write_own(c, "carrel_ack", json_pack("{s:I}", "received", (json_int_t)c->told));
}

static bool write_next(struct connection *c, bool *ret_any)
{
	unsigned char *bytes;
	struct client_msg *m;
	uint64_t number;
	size_t len = 0;
	bool text = false;

	m = client_take(c->client, &number);
	*ret_any = m != NULL;
	if (!m)
		return true;
	bytes = message_encode(c, m, &len, &text);
	client_msg_unref(m);
	if (!write_bytes(c, bytes, len, text))
		return false;
	if (!c->resumes)
		client_received(c->client, number);
	return true;
}

static bool read_on(struct connection *c)
{
	bool reads = client_reads(c->client);

	if (reads != c->reading) {
		c->reading = reads;
		lws_rx_flow_control(c->wsi, reads);
	}
	return true;
}

bool connection_write(struct connection *c)
{
	bool any = true;
	int n;

	if (c->close_status) {
		lws_close_reason(c->wsi, (enum lws_close_status)c->close_status, NULL, 0);
		return false;
	}
	if (!c->client)
		return false;
	if (c->hello_due && !write_hello(c))
		return false;
	for (n = 0; any && n < DOOR_WRITES && !lws_send_pipe_choked(c->wsi); n++) {
		if (!write_next(c, &any))
			return false;
		/* Whoever took the last message may have been let go by it. */
		if (!c->client)
			break;
	}
	if (c->client && c->resumes && !lws_send_pipe_choked(c->wsi) &&
	    (c->ack_due || client_count(c->client) >= c->told + DOOR_ACK_EVERY) && !write_ack(c))
		return false;
	if (any || c->close_status)
		lws_callback_on_writable(c->wsi);
	return !c->client || read_on(c);
}

void connection_tick(struct connection *c)
{
	if (!c->client)
		return;
	prolong(c);
	if (c->resumes && client_count(c->client) > c->told) {
		c->ack_due = true;
		lws_callback_on_writable(c->wsi);
	}
}

/* --- in --- */

static void take_own(struct connection *c, const struct v1_frame *f)
{
	json_t *content = json_parse_bounded(f->part[3].bytes, f->part[3].len, 64, 4);
	json_t *received = json_object_get(content, "received");

	if (json_is_integer(received) && json_integer_value(received) > 0)
		client_received(c->client, (uint64_t)json_integer_value(received));
	json_decref(content);
}

static bool take(struct connection *c, const char *name, const struct v1_part *part, size_t parts)
{
	enum jupyter_channel channel;

	/* Unknown channels are ignored, as Jupyter Server does; nobody speaks on iopub but the kernel. */
	if (jupyter_channel_number(name, &channel) < 0 || channel == JUPYTER_IOPUB)
		return true;
	client_message(c->client, channel, part, parts);
	return !c->client || read_on(c);
}

static bool take_binary(struct connection *c)
{
	struct v1_frame f;

	if (!c->v1 || v1_frame_parse(c->in.bytes, c->in.len, &f) < 0)
		return true;
	if (strcmp(f.channel, DOOR_CHANNEL) == 0) {
		if (c->resumes)
			take_own(c, &f);
		return true;
	}
	return take(c, f.channel, f.part, f.parts);
}

static bool take_text(struct connection *c)
{
	struct legacy_message m;
	bool ok;

	if (legacy_parse(c->in.bytes, c->in.len, &m) < 0)
		return true;
	ok = take(c, m.channel, m.part, V1_PARTS_MIN);
	legacy_free(&m);
	return ok;
}

bool connection_read(struct connection *c, const void *bytes, size_t len)
{
	bool ok;

	if (!c->client)
		return true;
	if (lws_is_first_fragment(c->wsi))
		c->in.len = 0;
	if (c->in.len + len > DOOR_MESSAGE_MAX) {
		lws_close_reason(c->wsi, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, NULL, 0);
		return false;
	}
	buf_add(&c->in, bytes, len);
	if (c->in.failed)
		return false;
	if (!lws_is_final_fragment(c->wsi))
		return true;
	ok = lws_frame_is_binary(c->wsi) ? take_binary(c) : take_text(c);
	/* What a large message took is not kept for small ones. */
	if (c->in.size > DOOR_READ * 2)
		buf_free(&c->in);
	c->in.len = 0;
	return ok;
}
