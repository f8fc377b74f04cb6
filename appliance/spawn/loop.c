#include "spawn.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int watch_add(struct spawn *s, struct watch *w)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = w };

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, w->fd, &event) != 0 ? -errno : 0;
}

void watch_close(struct spawn *s, struct watch *w)
{
	if (w->fd < 0)
		return;
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	close(w->fd);
	w->fd = -1;
}

static void exit_begin(struct spawn *s)
{
	if (s->exiting)
		return;
	s->exiting = true;
	s->exit_at_ms = now_ms() + SPAWN_EXIT_MS;
	for (unsigned i = 0; s->options.stop_on_exit && i < SPAWN_SANDBOXES_MAX; i++)
		if (s->sandboxes[i] && s->sandboxes[i]->state != SANDBOX_ENDED)
			sandbox_stop(s, s->sandboxes[i], "host-restart");
}

static void signal_ready(struct spawn *s, struct watch *w, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)events;
	while (read(w->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			exit_begin(s);
	/* Keepers are watched by pidfd; here they are only reaped. */
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static int signals_open(struct spawn *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	s->signals =
		(struct watch){ .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), .ready = signal_ready };
	return s->signals.fd < 0 ? -errno : watch_add(s, &s->signals);
}

static int listener_bind(struct spawn *s)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	mode_t mask;
	int err;

	if (strlen(s->options.socket) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, s->options.socket, strlen(s->options.socket));
	unlink(s->options.socket);
	mask = umask(0177);
	err = bind(s->listener.fd, (struct sockaddr *)&address, sizeof(address)) != 0 ? -errno : 0;
	umask(mask);
	if (err)
		return err;
	if (lchown(s->options.socket, s->options.client_uid, s->options.client_gid) != 0)
		return -errno;
	return listen(s->listener.fd, SPAWN_CLIENTS_MAX) != 0 ? -errno : 0;
}

static int listener_open(struct spawn *s)
{
	int err;

	s->listener = (struct watch){ .fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
				      .ready = client_accept };
	if (s->listener.fd < 0)
		return -errno;
	err = listener_bind(s);
	return err ? err : watch_add(s, &s->listener);
}

int loop_open(struct spawn *s, char *ret_message, size_t size)
{
	int err;

	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = s->epoll_fd < 0 ? -errno : signals_open(s);
	if (err) {
		snprintf(ret_message, size, "Cannot set up the event loop: %s.", strerror(-err));
		return err;
	}
	err = listener_open(s);
	if (err)
		snprintf(ret_message, size, "Cannot listen on %s: %s.", s->options.socket, strerror(-err));
	return err;
}

static bool may_exit(struct spawn *s)
{
	if (!s->exiting)
		return false;
	if (!s->options.stop_on_exit || now_ms() >= s->exit_at_ms)
		return true;
	for (unsigned i = 0; i < SPAWN_SANDBOXES_MAX; i++)
		if (s->sandboxes[i] && s->sandboxes[i]->state != SANDBOX_ENDED)
			return false;
	return !s->groups_left;
}

/* 0: there is nothing to wait for. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* One event a turn: a handler may close what a second one would point at. */
void loop_run(struct spawn *s)
{
	struct epoll_event event;

	while (!may_exit(s)) {
		uint64_t now = now_ms(), next = earlier(sandbox_kill_late(s, now), groups_retry(s, now));
		int n = epoll_wait(s->epoll_fd, &event, 1, next ? (int)(next - now) : -1);

		if (n == 1) {
			struct watch *w = event.data.ptr;
			w->ready(s, w, event.events);
		}
	}
}
