#include "door.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "door_inner.h"

static int refuse(struct lws *wsi, int status)
{
	lws_return_http_status(wsi, (unsigned)status, NULL);
	return 1;
}

static int on_upgrade(struct lws *wsi)
{
	struct door *d = lws_context_user(lws_get_context(wsi));
	struct connection *c = NULL;
	int status = upgrade_check(d, wsi, &c);

	if (status)
		return refuse(wsi, status);
	lws_set_opaque_user_data(wsi, c);
	return 0;
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct connection *c = lws_get_opaque_user_data(wsi);

	(void)user;
	switch (reason) {
	case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
		return on_upgrade(wsi);
	case LWS_CALLBACK_HTTP:
		return refuse(wsi, HTTP_STATUS_BAD_REQUEST) > 0 ? -1 : 0;
	case LWS_CALLBACK_ESTABLISHED:
		c->v1 = strcmp(lws_get_protocol(wsi)->name, V1_SUBPROTOCOL) == 0;
		return connection_open(c) ? 0 : -1;
	case LWS_CALLBACK_RECEIVE:
		return connection_read(c, in, len) ? 0 : -1;
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return connection_write(c) ? 0 : -1;
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		connection_goodbye(c, in, len);
		return 0;
	case LWS_CALLBACK_CLOSED:
		connection_closed(c);
		return 0;
	case LWS_CALLBACK_WSI_DESTROY:
		if (c) {
			if (c->client)
				connection_closed(c);
			lws_set_opaque_user_data(wsi, NULL);
			connection_free(c);
		}
		return 0;
	default:
		return 0;
	}
}

/* The first is what a client gets that offers none. */
static const struct lws_protocols protocols[] = {
	{ .name = "legacy", .callback = on_event, .rx_buffer_size = DOOR_READ },
	{ .name = V1_SUBPROTOCOL, .callback = on_event, .rx_buffer_size = DOOR_READ },
	{ .name = NULL },
};

static const lws_retry_bo_t liveness = {
	.secs_since_valid_ping = DOOR_PING_S,
	.secs_since_valid_hangup = DOOR_HANGUP_S,
};

/* Never above warnings: those quote requests. */
static void on_log(int level, const char *line)
{
	(void)level;
	core_log("websocket: %.*s", (int)strcspn(line, "\n"), line);
}

static void on_tick(void *arg)
{
	struct door *d = arg;
	struct connection *c, *next;

	for (c = d->connections; c; c = next) {
		next = c->next;
		connection_tick(c);
	}
	if (!d->stopping)
		hub_timer_set(d->tick, DOOR_TICK_MS);
}

static int context_new(struct door *d)
{
	struct lws_context_creation_info info = {
		.port = CONTEXT_PORT_NO_LISTEN,
		.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
			   LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS |
			   LWS_SERVER_OPTION_SKIP_SERVER_CANONICAL_NAME,
		.foreign_loops = d->loops,
		.user = d,
		.gid = (gid_t)-1,
		.uid = (uid_t)-1,
		.pt_serv_buf_size = DOOR_READ,
		.retry_and_idle_policy = &liveness,
	};

	d->loops[0] = hub_loop(d->core->hub);
	d->context = lws_create_context(&info);
	return d->context ? 0 : -EIO;
}

static int vhost_new(struct door *d)
{
	struct lws_context_creation_info info = {
		.vhost_name = "carrel",
		.iface = d->path,
		.options = LWS_SERVER_OPTION_UNIX_SOCK,
		.protocols = protocols,
		.retry_and_idle_policy = &liveness,
	};

	unlink(d->path);
	d->vhost = lws_create_vhost(d->context, &info);
	/* The run directory lets nobody in but carreld and nginx. */
	return d->vhost && chmod(d->path, 0666) == 0 ? 0 : -EIO;
}

struct door_call {
	struct hub_call call;
	struct door *door;
};

static void start_run(struct hub_call *call)
{
	struct door *d = ((struct door_call *)call)->door;
	int err;

	lws_set_log_level(LLL_ERR, on_log);
	d->tick = hub_timer_new(d->core->hub, on_tick, d);
	err = d->tick ? context_new(d) : -ENOMEM;
	if (!err)
		err = vhost_new(d);
	if (!err)
		hub_timer_set(d->tick, DOOR_TICK_MS);
	hub_call_end(call, err);
}

static void stop_run(struct hub_call *call)
{
	struct door *d = ((struct door_call *)call)->door;

	d->stopping = true;
	hub_timer_free(d->tick);
	if (d->context)
		lws_context_destroy(d->context);
	unlink(d->path);
	hub_call_end(call, 0);
}

int door_start(const struct settings *s, struct store *store, struct core *core, struct door **ret,
	       struct fault *f)
{
	struct door *d = calloc(1, sizeof(*d));
	struct door_call call = { .door = d };
	int err;

	if (!d)
		return fault_no_memory(f);
	d->core = core;
	d->store = store;
	snprintf(d->path, sizeof(d->path), "%s/channels.sock", s->run);
	err = hub_call(core->hub, &call.call, start_run);
	if (err < 0) {
		door_stop(d);
		return fault_set(f, -err, 500, "socket", "The socket channels.sock in %s cannot be made: %s.",
				 s->run, strerror(-err));
	}
	*ret = d;
	return 0;
}

void door_stop(struct door *d)
{
	struct door_call call = { .door = d };

	if (!d)
		return;
	hub_call(d->core->hub, &call.call, stop_run);
	free(d);
}
