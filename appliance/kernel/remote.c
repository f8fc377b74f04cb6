#include "remote.h"

#include <errno.h>
#include <jansson.h>
#include <libwebsockets.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

/* A message to the appliance, kept until it has it. */
struct upward {
	struct upward *next;
	size_t len;
	unsigned char bytes[];
};

struct remote {
	struct lws_context *context;
	struct lws *wsi;
	const struct where *where;
	const struct remote_ops *ops;
	void *arg;
	char kernel_id[64], session[40];
	struct upward *first, **last, *unwritten;
	uint64_t acked, written; /* of what we sent */
	size_t bytes;
	uint64_t received, told; /* of what came; what the appliance knows of that */
	size_t untold;
	bool hello, blocked, closing, ack_due;
	unsigned char *in;
	size_t in_len, in_size;
	bool in_whole; /* a message that was not taken yet */
	uv_timer_t retry, ack;
	unsigned retry_ms;
	void *loops[1];
};

static void connect_now(struct remote *r);

/* --- up --- */

bool remote_is_empty(const struct remote *r)
{
	return !r->first;
}

int remote_send(struct remote *r, const char *channel, const struct v1_part *part, size_t parts)
{
	size_t len = v1_frame_size(channel, part, parts);
	struct upward *u;

	if (len > REMOTE_MESSAGE_MAX)
		return -EMSGSIZE;
	if (r->bytes + len > REMOTE_KEEP_MAX)
		return -ENOBUFS;
	u = malloc(sizeof(*u) + len);
	if (!u)
		return -ENOMEM;
	*u = (struct upward){ .len = len };
	v1_frame_write(u->bytes, channel, part, parts);
	*r->last = u;
	r->last = &u->next;
	if (!r->unwritten)
		r->unwritten = u;
	r->bytes += len;
	if (r->wsi && r->hello)
		lws_callback_on_writable(r->wsi);
	return 0;
}

static void upward_drop(struct remote *r)
{
	struct upward *u = r->first;

	r->first = u->next;
	if (!r->first)
		r->last = &r->first;
	if (r->unwritten == u)
		r->unwritten = u->next;
	r->bytes -= u->len;
	free(u);
}

/* The appliance has what came before `number`, included. */
static void upward_acked(struct remote *r, uint64_t number)
{
	while (r->first && r->acked < number) {
		upward_drop(r);
		r->acked++;
	}
}

void remote_forget(struct remote *r)
{
	while (r->first)
		upward_drop(r);
}

/* --- down --- */

static void send_ack(struct remote *r)
{
	char content[48];
	struct v1_part part[V1_PARTS_MIN] = {
		{ "{\"msg_type\":\"carrel_ack\"}", 25 }, { "{}", 2 }, { "{}", 2 }, { content, 0 }
	};
	unsigned char frame[LWS_PRE + 256];
	size_t len;

	part[3].len = (size_t)snprintf(content, sizeof(content), "{\"received\":%llu}",
				       (unsigned long long)r->received);
	len = v1_frame_size("carrel", part, V1_PARTS_MIN);
	v1_frame_write(frame + LWS_PRE, "carrel", part, V1_PARTS_MIN);
	lws_write(r->wsi, frame + LWS_PRE, len, LWS_WRITE_BINARY);
	r->told = r->received;
	r->untold = 0;
	r->ack_due = false;
}

static void on_ack(uv_timer_t *t)
{
	struct remote *r = t->data;

	r->ack_due = true;
	if (r->wsi && r->hello)
		lws_callback_on_writable(r->wsi);
}

static void take_hello(struct remote *r, json_t *content)
{
	bool known = json_is_true(json_object_get(content, "known"));
	uint64_t number = (uint64_t)json_integer_value(json_object_get(content, "received"));

	if (known) {
		upward_acked(r, number);
	} else {
		/* A session that begins: both count from 1. */
		r->acked = 0;
		r->received = r->told = 0;
	}
	r->unwritten = r->first;
	r->written = r->acked;
	r->hello = true;
	r->retry_ms = REMOTE_RETRY_MS;
	r->ops->connected(known, r->arg);
	lws_callback_on_writable(r->wsi);
}

static void take_own(struct remote *r, const struct v1_frame *f)
{
	json_t *header = json_loadb(f->part[0].bytes, f->part[0].len, 0, NULL);
	json_t *content = json_loadb(f->part[3].bytes, f->part[3].len, 0, NULL);
	const char *type = json_string_value(json_object_get(header, "msg_type"));

	if (type && strcmp(type, "carrel_hello") == 0)
		take_hello(r, content);
	else if (type && strcmp(type, "carrel_ack") == 0)
		upward_acked(r, (uint64_t)json_integer_value(json_object_get(content, "received")));
	json_decref(header);
	json_decref(content);
}

/* False: it is not taken now. */
static bool take(struct remote *r)
{
	struct v1_frame f;

	if (v1_frame_parse(r->in, r->in_len, &f) < 0)
		return true;
	if (strcmp(f.channel, "carrel") == 0) {
		take_own(r, &f);
		return true;
	}
	if (!r->ops->message(&f, r->arg))
		return false;
	r->received++;
	r->untold += r->in_len;
	if (r->received >= r->told + REMOTE_ACK_EVERY || r->untold >= REMOTE_ACK_BYTES) {
		r->ack_due = true;
		lws_callback_on_writable(r->wsi);
	} else if (!uv_is_active((uv_handle_t *)&r->ack)) {
		uv_timer_start(&r->ack, on_ack, REMOTE_ACK_MS, 0);
	}
	return true;
}

static void take_whole(struct remote *r)
{
	if (!take(r)) {
		r->blocked = true;
		lws_rx_flow_control(r->wsi, 0);
		return;
	}
	r->in_len = 0;
	r->in_whole = false;
}

void remote_go_on(struct remote *r)
{
	if (!r->blocked)
		return;
	r->blocked = false;
	if (r->wsi && r->in_whole)
		take_whole(r);
	if (r->wsi && !r->blocked)
		lws_rx_flow_control(r->wsi, 1);
}

static int on_receive(struct remote *r, struct lws *wsi, const void *bytes, size_t len)
{
	unsigned char *grown;

	/* Never while it is told to wait; if it were, the next connection begins where this one stood. */
	if (r->blocked)
		return -1;
	if (r->in_len + len > r->in_size) {
		size_t size = (r->in_len + len) * 2;

		/* The server's bound, with room for what it adds. */
		if (size > 4 * (size_t)REMOTE_MESSAGE_MAX || !(grown = realloc(r->in, size)))
			return -1;
		r->in = grown;
		r->in_size = size;
	}
	memcpy(r->in + r->in_len, bytes, len);
	r->in_len += len;
	if (!lws_is_final_fragment(wsi))
		return 0;
	r->in_whole = true;
	take_whole(r);
	return 0;
}

/* A client's frame is masked in place, and this one may be needed again. */
static int write_copy(struct remote *r, const struct upward *u)
{
	unsigned char *bytes = malloc(LWS_PRE + u->len);
	int n;

	if (!bytes)
		return -ENOMEM;
	memcpy(bytes + LWS_PRE, u->bytes, u->len);
	n = lws_write(r->wsi, bytes + LWS_PRE, u->len, LWS_WRITE_BINARY);
	free(bytes);
	return n;
}

static int on_writable(struct remote *r)
{
	struct upward *u;

	if (!r->hello)
		return 0;
	if (r->ack_due)
		send_ack(r);
	while ((u = r->unwritten) != NULL && !lws_send_pipe_choked(r->wsi)) {
		if (write_copy(r, u) < 0)
			return -1;
		r->unwritten = u->next;
		r->written++;
	}
	if (r->unwritten)
		lws_callback_on_writable(r->wsi);
	return 0;
}

/* --- the connection --- */

static void on_retry(uv_timer_t *t)
{
	connect_now(t->data);
}

static void on_cut(struct remote *r)
{
	r->wsi = NULL;
	r->hello = r->blocked = r->in_whole = r->ack_due = false;
	r->in_len = 0;
	/* A handshake that fails may be told twice. */
	if (r->closing || uv_is_active((uv_handle_t *)&r->retry))
		return;
	uv_timer_start(&r->retry, on_retry, r->retry_ms, 0);
	r->retry_ms = r->retry_ms * 2 < REMOTE_RETRY_MAX_MS ? r->retry_ms * 2 : REMOTE_RETRY_MAX_MS;
	r->ops->away(r->arg);
}

static int add_key(struct remote *r, struct lws *wsi, unsigned char **at, unsigned char *end)
{
	char value[sizeof(r->where->token) + 16];
	int n = snprintf(value, sizeof(value), "Bearer %s", r->where->token);

	return lws_add_http_header_by_token(wsi, WSI_TOKEN_HTTP_AUTHORIZATION, (const unsigned char *)value,
					    n, at, end);
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct remote *r = lws_context_user(lws_get_context(wsi));

	(void)user;
	switch (reason) {
	case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
		return add_key(r, wsi, in, *(unsigned char **)in + len);
	case LWS_CALLBACK_CLIENT_RECEIVE:
		return on_receive(r, wsi, in, len);
	case LWS_CALLBACK_CLIENT_WRITEABLE:
		return on_writable(r);
	case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
	case LWS_CALLBACK_CLIENT_CLOSED:
		/* The late word of an earlier one is not about the one that took its place. */
		if (!r->wsi || r->wsi == wsi)
			on_cut(r);
		return 0;
	default:
		return 0;
	}
}

static const struct lws_protocols protocols[] = {
	{ .name = V1_SUBPROTOCOL, .callback = on_event, .rx_buffer_size = 64 * 1024 },
	{ .name = NULL },
};

static const lws_retry_bo_t liveness = { .secs_since_valid_ping = 30, .secs_since_valid_hangup = 60 };

/* "http://host:port/…" apart. */
static bool url_split(const char *url, bool *ret_tls, char *host, size_t size, int *ret_port,
		      const char **ret_path)
{
	const char *at, *end, *colon;

	*ret_tls = strncasecmp(url, "https://", 8) == 0;
	at = url + (*ret_tls ? 8 : 7);
	if (!*ret_tls && strncasecmp(url, "http://", 7) != 0)
		return false;
	end = at + strcspn(at, "/");
	*ret_path = end;
	colon = memchr(at, ':', (size_t)(end - at));
	if (*at == '[') {
		const char *close = memchr(at, ']', (size_t)(end - at));

		if (!close)
			return false;
		colon = close[1] == ':' ? close + 1 : NULL;
	}
	*ret_port = colon ? atoi(colon + 1) : *ret_tls ? 443 : 80;
	return (size_t)snprintf(host, size, "%.*s", (int)((colon ? colon : end) - at), at) < size;
}

static void connect_now(struct remote *r)
{
	char host[256], address[256], path[512];
	struct lws_client_connect_info info = { .context = r->context,
						.path = path,
						.protocol = V1_SUBPROTOCOL };
	const char *prefix;
	bool tls;

	if (r->closing || r->wsi || !url_split(r->where->url, &tls, host, sizeof(host), &info.port, &prefix))
		return;
	snprintf(path, sizeof(path), "%s/jupyter/api/kernels/%s/channels?session_id=%s&carrel_received=%llu",
		 prefix, r->kernel_id, r->session, (unsigned long long)r->received);
	snprintf(address, sizeof(address), "%s", host[0] == '[' ? host + 1 : host);
	address[strcspn(address, "]")] = '\0';
	info.address = address;
	info.host = info.origin = host;
	info.ssl_connection = tls ? LCCSCF_USE_SSL : 0;
	info.pwsi = &r->wsi;
	info.retry_and_idle_policy = &liveness;
	r->told = r->received;
	r->untold = 0;
	if (!lws_client_connect_via_info(&info) && !r->wsi && !uv_is_active((uv_handle_t *)&r->retry))
		uv_timer_start(&r->retry, on_retry, r->retry_ms, 0);
}

void remote_connect(struct remote *r, const char *kernel_id)
{
	snprintf(r->kernel_id, sizeof(r->kernel_id), "%s", kernel_id);
	connect_now(r);
}

static void on_log(int level, const char *line)
{
	(void)level;
	(void)line; /* a connection that fails is tried again, and told once in words of ours */
}

struct remote *remote_new(uv_loop_t *loop, const struct where *where, const char *proxy,
			  const struct remote_ops *ops, void *arg)
{
	struct remote *r = calloc(1, sizeof(*r));
	struct lws_context_creation_info info = {
		.port = CONTEXT_PORT_NO_LISTEN,
		.protocols = protocols,
		.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT,
		.user = r,
		.gid = (gid_t)-1,
		.uid = (uid_t)-1,
		.pt_serv_buf_size = 64 * 1024,
		.fd_limit_per_thread = 16,
		/* NULL: the system's. */
		.client_ssl_ca_filepath = where->cacert[0] ? where->cacert : NULL,
		/* NULL would be another rule than that of the requests. */
		.http_proxy_address = proxy,
	};
	unsigned char raw[16];
	size_t i;

	if (!r || getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw)) {
		free(r);
		return NULL;
	}
	for (i = 0; i < sizeof(raw); i++)
		snprintf(r->session + 2 * i, 3, "%02x", raw[i]);
	r->where = where;
	r->ops = ops;
	r->arg = arg;
	r->last = &r->first;
	r->retry_ms = REMOTE_RETRY_MS;
	r->loops[0] = loop;
	info.foreign_loops = r->loops;
	lws_set_log_level(LLL_ERR, on_log);
	r->context = lws_create_context(&info);
	if (!r->context) {
		free(r);
		return NULL;
	}
	uv_timer_init(loop, &r->retry);
	uv_timer_init(loop, &r->ack);
	r->retry.data = r->ack.data = r;
	return r;
}

static void on_closed(uv_handle_t *handle)
{
	struct remote *r = handle->data;

	while (r->first)
		upward_drop(r);
	free(r->in);
	free(r);
}

void remote_close(struct remote *r)
{
	if (!r)
		return;
	r->closing = true;
	lws_context_destroy(r->context);
	uv_close((uv_handle_t *)&r->ack, NULL);
	uv_close((uv_handle_t *)&r->retry, on_closed);
}
