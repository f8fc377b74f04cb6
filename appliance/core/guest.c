#include "guest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "guest_inner.h"
#include "times.h"

static void guest_connect(struct guest *g);

static void guest_break(struct guest *g, const char *reason, const char *message)
{
	if (g->broken)
		return;
	g->broken = true;
	hub_timer_stop(g->retry);
	g->ops.broken(g, reason, message, g->arg);
}

static void on_up(struct link *l, void *arg)
{
	struct guest *g = arg;

	(void)l;
	g->down_since = 0;
	g->up_since = mono_ms();
	hub_timer_stop(g->health);
	hub_timer_stop(g->retry);
	g->again_ms = 0;
	g->ops.up(g, g->arg);
}

/* A guest that is slow is given longer each time. */
static void await_session(struct guest *g)
{
	g->again_ms = g->again_ms ? g->again_ms * 2 : GUEST_AGAIN_MS;
	if (g->again_ms > GUEST_AGAIN_MAX_MS)
		g->again_ms = GUEST_AGAIN_MAX_MS;
	hub_timer_set(g->retry, g->again_ms);
}

static void on_down(struct link *l, const char *why, void *arg)
{
	struct guest *g = arg;

	(void)l;
	(void)why;
	if (g->freeing || g->held)
		return;
	if (!g->down_since)
		g->down_since = mono_ms();
	hub_timer_set(g->health, GUEST_DOWN_MAX_MS);
	if (g->uv)
		await_session(g);
	/* A session that held for a while was no attack, and on_lost() takes back
	 * what the transport was the reason of. */
	if (g->up_since && mono_ms() - g->up_since > GUEST_STEADY_MS)
		g->breaks = 0;
	g->up_since = 0;
	if (++g->breaks > GUEST_BREAKS_MAX)
		guest_break(g, "protocol-error",
			    "The sandbox's agent broke the link's protocol again and again.");
}

static void on_want_write(struct link *l, void *arg)
{
	struct guest *g = arg;

	(void)l;
	if (g->uv)
		link_uv_kick(g->uv);
}

static void on_health(void *arg)
{
	struct guest *g = arg;

	if (g->down_since && !g->held && !g->paused)
		guest_break(g, "crashed(agent)", "The sandbox's agent stopped answering.");
}

static void guest_disconnect(struct guest *g)
{
	link_uv_close(g->uv);
	g->uv = NULL;
	g->breaks = 0;
	g->connect_since = mono_ms();
}

static void on_retry(void *arg)
{
	struct guest *g = arg;

	/* Connected, and no session: a monitor can leave a connection deaf, see vmm/engine.h. */
	if (g->uv) {
		link_drop(g->link, "the sandbox does not answer on this connection");
		guest_disconnect(g);
	}
	guest_connect(g);
}

/* From link_uv: the descriptor is of no use any more. */
static void on_lost(struct link_uv *b, int err, void *arg)
{
	struct guest *g = arg;

	(void)b;
	(void)err;
	guest_disconnect(g);
	if (!g->broken)
		hub_timer_set(g->retry, GUEST_RETRY_MS);
}

static int socket_connect(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd, err;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static void guest_connect(struct guest *g)
{
	int fd = socket_connect(g->path);

	if (fd >= 0 && link_uv_open(hub_loop(g->hub), g->link, fd, LINK_UV_SOCKET, on_lost, g, &g->uv) == 0) {
		link_hello(g->link);
		await_session(g);
		return;
	}
	if (mono_ms() - g->connect_since > GUEST_CONNECT_MAX_MS) {
		guest_break(g, "crashed(agent)", "The sandbox's link could not be connected.");
		return;
	}
	hub_timer_set(g->retry, GUEST_RETRY_MS);
}

struct guest *guest_new(struct hub *h, const char *path, const struct guest_ops *ops, void *arg)
{
	static const struct link_ops link_ops = { .up = on_up, .down = on_down, .want_write = on_want_write };
	struct guest *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	*g = (struct guest){ .hub = h, .ops = *ops, .arg = arg };
	snprintf(g->path, sizeof(g->path), "%s", path);
	g->link = link_new(LINK_CLIENT, &link_ops, g);
	g->health = hub_timer_new(h, on_health, g);
	g->retry = hub_timer_new(h, on_retry, g);
	if (!g->link || !g->health || !g->retry) {
		guest_free(g);
		return NULL;
	}
	g->connect_since = g->down_since = mono_ms();
	hub_timer_set(g->health, GUEST_DOWN_MAX_MS);
	guest_connect(g);
	return g;
}

void guest_free(struct guest *g)
{
	if (!g)
		return;
	g->broken = g->freeing = true;
	link_free(g->link);
	link_uv_close(g->uv);
	hub_timer_free(g->health);
	hub_timer_free(g->retry);
	free(g);
}

void guest_hand_over(struct guest *g, const struct guest_ops *ops, void *arg)
{
	g->ops = *ops;
	g->arg = arg;
}

bool guest_is_up(const struct guest *g)
{
	return g && link_is_up(g->link);
}

struct link *guest_link(struct guest *g)
{
	return g->link;
}

void guest_paused(struct guest *g, bool paused)
{
	g->paused = paused;
	if (!paused && g->down_since)
		hub_timer_set(g->health, GUEST_DOWN_MAX_MS);
}

void guest_hold(struct guest *g, bool held)
{
	if (!g || g->held == held)
		return;
	g->held = held;
	if (held) {
		hub_timer_stop(g->health);
		hub_timer_stop(g->retry);
		link_uv_close(g->uv);
		g->uv = NULL;
		link_drop(g->link, "the sandbox stands still");
		g->up_since = 0;
		g->breaks = 0;
		return;
	}
	g->connect_since = g->down_since = mono_ms();
	hub_timer_set(g->health, GUEST_DOWN_MAX_MS);
	guest_connect(g);
}
