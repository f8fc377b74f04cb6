#include "transport.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent.h"
#include "util.h"

#define PORTS "/sys/class/virtio-ports"
#define PORT_NAME "carrel.agent"

enum {
	PORT_RETRY_MS = 50,
	/* The port's driver is a module that may load after this starts. */
	PORT_WAIT_MS = 30 * 1000,
};

static uv_timer_t port_timer;
static uint64_t port_deadline;
static uv_poll_t listen_poll;
static int listen_fd = -1;

static bool port_is(const char *dir)
{
	cleanup_free char *path = xasprintf(PORTS "/%s/name", dir);
	char name[64];

	if (file_read(path, name, sizeof(name)) < 0)
		return false;
	name[strcspn(name, "\n")] = '\0';
	return strcmp(name, PORT_NAME) == 0;
}

/* There is no udev: the ports are looked through by name. */
static int port_open(void)
{
	DIR *dir = opendir(PORTS);
	struct dirent *de;
	int fd = -ENODEV;

	while (dir && (de = readdir(dir))) {
		cleanup_free char *path = NULL;

		if (de->d_name[0] == '.' || !port_is(de->d_name))
			continue;
		path = xasprintf("/dev/%s", de->d_name);
		fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
		break;
	}
	if (dir)
		closedir(dir);
	return fd;
}

static void binding_lost(struct link_uv *b, int err, void *arg)
{
	struct agent *a = arg;

	if (b != a->binding)
		return;
	a->binding = NULL;
	link_uv_close(b);
	link_drop(a->link, strerror(-err));
}

static void port_try(uv_timer_t *timer)
{
	struct agent *a = timer->data;
	int fd = port_open();

	if (fd >= 0) {
		fd = link_uv_open(&a->loop, a->link, fd, LINK_UV_PORT, binding_lost, a, &a->binding);
		if (fd >= 0)
			return;
	}
	if (now_ms() < port_deadline) {
		uv_timer_start(timer, port_try, PORT_RETRY_MS, 0);
		return;
	}
	log_line("there is no virtio port \"" PORT_NAME "\": %s", strerror(-fd));
	agent_shutdown(a);
}

static void connected(uv_poll_t *poll, int status, int events)
{
	struct agent *a = poll->data;
	int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), err;

	(void)status, (void)events;
	if (fd < 0)
		return;
	if (a->binding) {
		link_uv_close(a->binding);
		a->binding = NULL;
		link_drop(a->link, "another host connected");
	}
	err = link_uv_open(&a->loop, a->link, fd, LINK_UV_SOCKET, binding_lost, a, &a->binding);
	if (err)
		log_line("a connection cannot be used: %s", strerror(-err));
}

static int listen_start(struct agent *a)
{
	int err;

	listen_poll.data = a;
	err = uv_poll_init(&a->loop, &listen_poll, listen_fd);
	return err ? err : uv_poll_start(&listen_poll, UV_READABLE, connected);
}

/* Who made it listens already: a host that was quicker waits there. */
static int socket_inherit(struct agent *a)
{
	listen_fd = a->opt.listen_fd;
	if (fcntl(listen_fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(listen_fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return listen_start(a);
}

static int socket_listen(struct agent *a)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (strlen(a->opt.socket) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", a->opt.socket);
	unlink(addr.sun_path);
	listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listen_fd < 0)
		return -errno;
	if (bind(listen_fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(listen_fd, 8) < 0)
		return -errno;
	return listen_start(a);
}

int transport_start(struct agent *a)
{
	int err;

	if (a->opt.listen_fd >= 0)
		return socket_inherit(a);
	if (a->opt.socket)
		return socket_listen(a);
	err = uv_timer_init(&a->loop, &port_timer);
	port_timer.data = a;
	port_deadline = now_ms() + PORT_WAIT_MS;
	if (!err)
		port_try(&port_timer);
	return err;
}
