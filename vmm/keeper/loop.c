/* The keeper's event loop. */
#include "keeper.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "reason.h"

enum {
	POLL_SIGNAL,
	POLL_TIMER,
	POLL_CONTROL,
	POLL_CONSOLE,
	POLL_QEMU,
	POLL_READY,
	POLL_CONNECTION,
	POLL_COUNT = POLL_CONNECTION + KEEPER_CONNECTIONS_MAX
};

/* Bytes taken from a pipe in one turn, so that a flood cannot keep the loop
 * from its deadline. */
enum { DRAIN_MAX = 64 * 1024 };

/* Writes why and ends everything: with process 1 gone the kernel kills the
 * rest of the namespace. A frozen guest would not die before it is thawed. */
static void __attribute__((noreturn)) keeper_end(struct keeper *k, const char *reason)
{
	keeper_logs_drain(k);
	if (pwrite(KEEPER_FD_REASON, reason, strlen(reason), 0) < 0)
		log_append(&k->qemu_log, "the reason file cannot be written\n", 34);
	if (write(KEEPER_FD_THAW, k->config.thaw, strnlen(k->config.thaw, sizeof(k->config.thaw))) < 0)
		log_append(&k->qemu_log, "the control group cannot be thawed\n", 35);
	_exit(0);
}

/* What ends before it began is told to carrel-spawn, which cleans up. */
static void __attribute__((noreturn)) keeper_fail(struct keeper *k, int err, const char *message)
{
	keeper_reply_started(k, err, message);
	_exit(1);
}

void keeper_reply_started(const struct keeper *k, int error, const char *message)
{
	struct keeper_reply reply = { .version = KEEPER_VERSION,
				      .verb = KEEPER_STARTED,
				      .error = error,
				      .deadline_boottime_ns = k->config.deadline_boottime_ns };

	snprintf(reply.message, sizeof(reply.message), "%s", message);
	send(KEEPER_FD_PARENT, &reply, sizeof(reply), MSG_NOSIGNAL);
}

int keeper_deadline_set(struct keeper *k, uint64_t boottime_ns)
{
	const struct itimerspec at = { .it_value = { .tv_sec = (time_t)(boottime_ns / 1000000000u),
						     .tv_nsec = (long)(boottime_ns % 1000000000u) } };

	if (timerfd_settime(k->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) != 0)
		return -errno;
	k->config.deadline_boottime_ns = boottime_ns;
	return 0;
}

static void pipe_drain(int *fd, struct log *log)
{
	char bytes[4096];
	size_t taken = 0;
	ssize_t n = 0;

	while (*fd >= 0 && taken < DRAIN_MAX && (n = read(*fd, bytes, sizeof(bytes))) > 0) {
		log_append(log, bytes, (size_t)n);
		taken += (size_t)n;
	}
	if (*fd >= 0 && n == 0) {
		close(*fd);
		*fd = -1;
	}
}

void keeper_logs_drain(struct keeper *k)
{
	pipe_drain(&k->console_fd, &k->console_log);
	pipe_drain(&k->qemu_fd, &k->qemu_log);
}

/* Below its own last words. */
static void sentence_log(struct keeper *k, int wait_status)
{
	const char *sentence = reason_sentence(wait_status);

	keeper_logs_drain(k);
	if (!sentence)
		return;
	log_append(&k->qemu_log, sentence, strlen(sentence));
	log_append(&k->qemu_log, "\n", 1);
}

static void qemu_exited(struct keeper *k, int wait_status)
{
	char events[512], reason[SPAWN_REASON_MAX], last[128], message[SPAWN_MESSAGE_MAX];
	ssize_t n = pread(KEEPER_FD_MEMORY_EVENTS, events, sizeof(events) - 1, 0);

	events[n > 0 ? n : 0] = '\0';
	reason_of_exit(wait_status, events, reason, sizeof(reason));
	sentence_log(k, wait_status);
	if (k->ready)
		keeper_end(k, reason);
	log_last_line(&k->qemu_log, last, sizeof(last));
	snprintf(message, sizeof(message), "%s ended before it was ready, %s: %s", keeper_program_name(k), reason,
		 last[0] ? last : "it said nothing.");
	keeper_fail(k, -EIO, message);
}

/* Orphans of QEMU come here too; only QEMU itself matters. */
static void reap(struct keeper *k)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(k->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo == SIGTERM)
			keeper_end(k, "host-restart");
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == k->qemu)
			qemu_exited(k, status);
}

/* The monitor greets from a thread of its own before the machine is made; it
 * answers a command only once the main loop runs, and then QEMU has opened all
 * it needs. So: one fixed command, and the end of the second line. */
static bool monitor_answered(struct keeper *k)
{
	static const char command[] = "{\"execute\":\"qmp_capabilities\"}\n";
	char bytes[1024];
	ssize_t n = recv(k->ready_fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	/* carrel-vmm greets from its loop. */
	if (n > 0 && keeper_own_monitor(&k->config))
		return true;
	if (n <= 0 && !(n < 0 && (errno == EAGAIN || errno == EINTR))) {
		/* A hang-up: the exit of QEMU follows. */
		close(k->ready_fd);
		k->ready_fd = -1;
	}
	for (ssize_t i = 0; i < n; i++) {
		k->ready_lines += bytes[i] == '\n';
		if (bytes[i] == '\n' && k->ready_lines == 1)
			send(k->ready_fd, command, sizeof(command) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	return k->ready_lines >= 2;
}

/* The child's end of the pipe closes as it becomes the agent; who fails before that writes into it. */
static bool agent_executed(struct keeper *k)
{
	char failed;
	ssize_t n = read(k->ready_fd, &failed, sizeof(failed));

	if (n > 0) {
		/* Its exit follows. */
		close(k->ready_fd);
		k->ready_fd = -1;
	}
	return n == 0;
}

static void ready(struct keeper *k)
{
	const struct jail jail = keeper_jail(k);
	char message[SPAWN_MESSAGE_MAX];
	int err;

	if (!(keeper_no_monitor(&k->config) ? agent_executed(k) : monitor_answered(k)))
		return;
	close(k->ready_fd);
	k->ready_fd = -1;
	err = jail_close(&jail, message, sizeof(message));
	if (err)
		keeper_fail(k, err, message);
	k->ready = true;
	keeper_reply_started(k, 0, "");
}

static void expired(struct keeper *k)
{
	uint64_t times;

	if (read(k->timer_fd, &times, sizeof(times)) == (ssize_t)sizeof(times))
		keeper_end(k, "deadline");
}

static void connection_accept(struct keeper *k)
{
	int fd = accept4(KEEPER_FD_CONTROL, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	for (int i = 0; fd >= 0 && i < KEEPER_CONNECTIONS_MAX; i++)
		if (k->connections[i] < 0) {
			k->connections[i] = fd;
			return;
		}
	if (fd >= 0)
		close(fd);
}

static void request_handle(struct keeper *k, int fd, const struct keeper_request *request)
{
	struct keeper_reply reply = { .version = KEEPER_VERSION, .verb = request->verb };

	switch (request->verb) {
	case KEEPER_STOP:
		keeper_end(k, request->reason);
	case KEEPER_DEADLINE:
		reply.error = keeper_deadline_set(k, request->deadline_boottime_ns);
		break;
	case KEEPER_STAT:
		break;
	default:
		reply.error = -EOPNOTSUPP;
	}
	reply.deadline_boottime_ns = k->config.deadline_boottime_ns;
	send(fd, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void connection_read(struct keeper *k, int *fd)
{
	struct keeper_request request;
	ssize_t n = recv(*fd, &request, sizeof(request), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(request) || request.version != KEEPER_VERSION ||
	    memchr(request.reason, '\0', sizeof(request.reason)) == NULL) {
		close(*fd);
		*fd = -1;
		return;
	}
	request_handle(k, *fd, &request);
}

static void poll_set(const struct keeper *k, struct pollfd *fds)
{
	fds[POLL_SIGNAL] = (struct pollfd){ .fd = k->signal_fd, .events = POLLIN };
	fds[POLL_TIMER] = (struct pollfd){ .fd = k->timer_fd, .events = POLLIN };
	fds[POLL_CONTROL] = (struct pollfd){ .fd = KEEPER_FD_CONTROL, .events = POLLIN };
	fds[POLL_CONSOLE] = (struct pollfd){ .fd = k->console_fd, .events = POLLIN };
	fds[POLL_QEMU] = (struct pollfd){ .fd = k->qemu_fd, .events = POLLIN };
	fds[POLL_READY] = (struct pollfd){ .fd = k->ready_fd, .events = POLLIN };
	for (int i = 0; i < KEEPER_CONNECTIONS_MAX; i++)
		fds[POLL_CONNECTION + i] = (struct pollfd){ .fd = k->connections[i], .events = POLLIN };
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void turn(struct keeper *k, const struct pollfd *fds)
{
	if (fds[POLL_TIMER].revents)
		expired(k);
	if (fds[POLL_CONSOLE].revents)
		pipe_drain(&k->console_fd, &k->console_log);
	if (fds[POLL_QEMU].revents)
		pipe_drain(&k->qemu_fd, &k->qemu_log);
	if (fds[POLL_SIGNAL].revents)
		reap(k);
	if (fds[POLL_READY].revents)
		ready(k);
	for (int i = 0; i < KEEPER_CONNECTIONS_MAX; i++)
		if (fds[POLL_CONNECTION + i].revents)
			connection_read(k, &k->connections[i]);
	if (fds[POLL_CONTROL].revents)
		connection_accept(k);
}

void keeper_run(struct keeper *k)
{
	const uint64_t ready_until = now_ms() + KEEPER_READY_MS;
	struct pollfd fds[POLL_COUNT];

	for (;;) {
		uint64_t now = now_ms();

		if (!k->ready && now >= ready_until)
			keeper_fail(k, -ETIMEDOUT,
				    "The monitor did not reach its main loop in time: the host is overloaded.");
		poll_set(k, fds);
		if (poll(fds, POLL_COUNT, k->ready ? -1 : (int)(ready_until - now)) > 0)
			turn(k, fds);
	}
}
