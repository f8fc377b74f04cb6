/* SPAWN_PAGES: freezes a sandbox, has a child copy its private pages, thaws it
 * and answers. The child thaws as well: it may outlive this process. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pages_copy.h"

/* What the child keeps, from 3 on; above come no others. */
enum { CHILD_STATE = 3, CHILD_PAGES, CHILD_RESULT, CHILD_THAW, CHILD_END, CHILD_HIGH = 16 };

struct result {
	int error;
	char message[SPAWN_MESSAGE_MAX];
};

static int place_fds(int state_fd, int pages_fd, int result_fd, int thaw_fd)
{
	const int from[] = { state_fd, pages_fd, result_fd, thaw_fd };
	int high[CHILD_END - CHILD_STATE];

	for (int i = 0; i < CHILD_END - CHILD_STATE; i++) {
		high[i] = fcntl(from[i], F_DUPFD, CHILD_HIGH);
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < CHILD_END - CHILD_STATE; i++)
		if (dup2(high[i], CHILD_STATE + i) < 0)
			return -errno;
	return syscall(SYS_close_range, CHILD_END, ~0u, 0) != 0 ? -errno : 0;
}

static void __attribute__((noreturn))
child_run(struct pages_copy *job, const char *thaw_text, int result_fd, int thaw_fd)
{
	struct result result = { 0 };

	/* Uncaught: what takes too long ends without a result. */
	alarm(PAGES_COPY_S);
	result.error = place_fds(job->state_fd, job->pages_fd, result_fd, thaw_fd);
	if (result.error)
		_exit(1);
	job->state_fd = CHILD_STATE;
	job->pages_fd = CHILD_PAGES;
	result.error = pages_copy(job, result.message);
	if (write(CHILD_THAW, thaw_text, strlen(thaw_text)) < 0)
		fprintf(stderr, "carrel-spawn: a sandbox cannot be thawed: %s\n", strerror(errno));
	if (write(CHILD_RESULT, &result, sizeof(result)) != (ssize_t)sizeof(result))
		_exit(1);
	_exit(0);
}

/* No result: it was killed, or its time was over. */
static void result_read(int fd, struct spawn_reply *reply)
{
	struct result result;

	if (read(fd, &result, sizeof(result)) == (ssize_t)sizeof(result)) {
		reply->error = result.error;
		memcpy(reply->message, result.message, sizeof(reply->message));
		return;
	}
	reply->error = -ETIMEDOUT;
	snprintf(reply->message, sizeof(reply->message),
		 "The sandbox's memory was not saved within %d s, or saving it was cut off.", PAGES_COPY_S);
}

static void copy_end(struct spawn *s, struct sandbox *b, struct spawn_reply *reply)
{
	struct client *client = b->copy_asker.client;

	watch_close(s, &b->copy);
	close(b->copy_result_fd);
	reply->version = SPAWN_VERSION;
	reply->verb = SPAWN_PAGES;
	reply->serial = b->copy_asker.serial;
	memcpy(reply->id, b->id, sizeof(reply->id));
	if (client)
		client_reply(s, client, reply);
}

static void copy_ready(struct spawn *s, struct watch *w, uint32_t events)
{
	struct sandbox *b = (struct sandbox *)((char *)w - offsetof(struct sandbox, copy));
	struct spawn_reply reply = { 0 };
	int err = cgroup_freeze(&b->cgroup, false);

	(void)events;
	if (err)
		fprintf(stderr, "carrel-spawn: %s: cannot be thawed: %s\n", b->id, strerror(-err));
	result_read(b->copy_result_fd, &reply);
	copy_end(s, b, &reply);
}

void pages_cancel(struct spawn *s, struct sandbox *b)
{
	struct spawn_reply reply = { .error = -ESRCH };

	if (b->copy.fd < 0)
		return;
	syscall(SYS_pidfd_send_signal, b->copy.fd, SIGKILL, NULL, 0);
	snprintf(reply.message, sizeof(reply.message), "The sandbox ended while its memory was being saved.");
	copy_end(s, b, &reply);
}

static unsigned copies_running(const struct spawn *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SPAWN_SANDBOXES_MAX; i++)
		n += s->sandboxes[i] && s->sandboxes[i]->copy.fd >= 0;
	return n;
}

static int refuse(char *ret_message, int err, const char *sentence)
{
	snprintf(ret_message, SPAWN_MESSAGE_MAX, "%s", sentence);
	return err;
}

static int fork_copy(struct spawn *s, struct sandbox *b, const int *fds, int result_fd, int thaw_fd)
{
	struct pages_copy job = { .cgroup = b->cgroup,
				  .ram_dev = b->ram_dev,
				  .ram_ino = b->ram_ino,
				  .state_fd = fds[SPAWN_FD_STATE],
				  .pages_fd = fds[SPAWN_FD_PAGES],
				  .uid = s->options.client_uid,
				  .gid = s->options.client_gid,
				  .parent = getpid() };
	pid_t pid = fork();
	int pidfd, err;

	if (pid == 0)
		child_run(&job, cgroup_thaw_text(&b->cgroup), result_fd, thaw_fd);
	if (pid < 0)
		return -errno;
	/* It cannot have been reaped: that is done by this thread's loop. */
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	err = pidfd < 0 ? -errno : 0;
	if (!err) {
		b->copy = (struct watch){ .fd = pidfd, .ready = copy_ready };
		err = watch_add(s, &b->copy);
	}
	if (err) {
		kill(pid, SIGKILL);
		watch_close(s, &b->copy);
	}
	return err;
}

static int copy_begin(struct spawn *s, struct sandbox *b, const int *fds)
{
	int thaw_fd = cgroup_open_thaw(&b->cgroup), pipe_fds[2], err;

	if (thaw_fd < 0)
		return thaw_fd;
	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0) {
		err = -errno;
		close(thaw_fd);
		return err;
	}
	err = cgroup_freeze(&b->cgroup, true);
	if (!err)
		err = fork_copy(s, b, fds, pipe_fds[1], thaw_fd);
	if (err)
		cgroup_freeze(&b->cgroup, false);
	close(thaw_fd);
	close(pipe_fds[1]);
	if (err)
		close(pipe_fds[0]);
	else
		b->copy_result_fd = pipe_fds[0];
	return err;
}

int pages_start(struct spawn *s, struct sandbox *b, const int *fds, const struct pending *asker,
		char *ret_message)
{
	int err;

	if (b->state != SANDBOX_RUNNING || b->kill_at_ms)
		return refuse(ret_message, -ESRCH, "The sandbox does not run.");
	if (!b->ram_ino)
		return refuse(ret_message, -EINVAL,
			      "Only a sandbox that was cloned from a snapshot has pages of its own.");
	if (b->copy.fd >= 0)
		return refuse(ret_message, -EBUSY, "The sandbox's memory is being saved already.");
	if (copies_running(s) >= SPAWN_COPIES_MAX)
		return refuse(ret_message, -EAGAIN, "Too many sandboxes are being saved at once: try again.");
	err = copy_begin(s, b, fds);
	if (err)
		return err;
	b->copy_asker = *asker;
	return 1;
}
