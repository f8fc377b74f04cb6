#include "spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Where a watch lies inside its sandbox. */
#define SANDBOX_OF(w, member) ((struct sandbox *)((char *)(w)-offsetof(struct sandbox, member)))

struct sandbox *sandbox_find(struct spawn *s, const char *id)
{
	for (unsigned i = 0; i < SPAWN_SANDBOXES_MAX; i++)
		if (s->sandboxes[i] && strcmp(s->sandboxes[i]->id, id) == 0)
			return s->sandboxes[i];
	return NULL;
}

void sandbox_free(struct spawn *s, struct sandbox *b)
{
	watch_close(s, &b->keeper);
	watch_close(s, &b->exit);
	pages_cancel(s, b);
	s->sandboxes[b->slot] = NULL;
	free(b);
}

static void pending_answer(struct spawn *s, struct sandbox *b, uint32_t verb, int error, const char *message)
{
	struct spawn_reply reply = { .version = SPAWN_VERSION, .error = error };
	struct pending first;

	if (b->pending_count == 0 || b->pending[0].verb != verb)
		return;
	first = b->pending[0];
	b->pending_count--;
	memmove(b->pending, b->pending + 1, b->pending_count * sizeof(*b->pending));
	if (!first.client)
		return;
	reply.verb = first.verb;
	reply.serial = first.serial;
	memcpy(reply.id, b->id, sizeof(reply.id));
	snprintf(reply.message, sizeof(reply.message), "%s", message);
	client_reply(s, first.client, &reply);
}

static void pending_fail_all(struct spawn *s, struct sandbox *b, int error, const char *message)
{
	while (b->pending_count > 0)
		pending_answer(s, b, b->pending[0].verb, error, message);
}

static void sandbox_forget_client(struct sandbox *b, const struct client *c)
{
	for (unsigned k = 0; b && k < b->pending_count; k++)
		if (b->pending[k].client == c)
			b->pending[k].client = NULL;
	if (b && b->copy_asker.client == c)
		b->copy_asker.client = NULL;
}

void sandbox_client_gone(struct spawn *s, const struct client *c)
{
	for (unsigned i = 0; i < SPAWN_SANDBOXES_MAX; i++)
		sandbox_forget_client(s->sandboxes[i], c);
}

/* Nothing of it runs any more: groups and sockets go, logs and reason stay
 * until SPAWN_FORGET. */
static void clean_up(struct spawn *s, struct sandbox *b, bool keep_reason)
{
	int dir = rundir_open(s->run_fd, b->id);

	groups_remove(s, b);
	if (dir < 0)
		return;
	rundir_remove_sockets(dir);
	if (keep_reason)
		rundir_reason_read(dir, b->reason, sizeof(b->reason));
	close(dir);
}

/* Its keeper never told that it started. */
static void start_failed(struct spawn *s, struct sandbox *b)
{
	const char *message = b->failure[0] ? b->failure : "The keeper of the sandbox died while it started.";
	int err = b->failure_error ? b->failure_error : -EIO;

	if (b->reason[0] && !b->failure[0]) {
		snprintf(b->failure, sizeof(b->failure), "The sandbox was stopped while it started: %s.",
			 b->reason);
		err = -ECANCELED;
		message = b->failure;
	}
	clean_up(s, b, false);
	rundir_remove(s->run_fd, b->id);
	pending_fail_all(s, b, err, message);
	sandbox_free(s, b);
}

/* A stop that killed instead of asking has left no reason file. */
static void reason_settle(struct spawn *s, struct sandbox *b)
{
	char asked[SPAWN_REASON_MAX];
	int dir, err;

	memcpy(asked, b->reason, sizeof(asked));
	clean_up(s, b, true);
	if (strcmp(b->reason, "crashed") != 0 || !asked[0])
		return;
	memcpy(b->reason, asked, sizeof(b->reason));
	dir = rundir_open(s->run_fd, b->id);
	err = dir < 0 ? dir : rundir_reason_write(dir, asked, s->options.client_gid);
	if (err)
		fprintf(stderr, "carrel-spawn: %s: cannot write its reason: %s\n", b->id, strerror(-err));
	if (dir >= 0)
		close(dir);
}

void sandbox_end(struct spawn *s, struct sandbox *b)
{
	watch_close(s, &b->keeper);
	watch_close(s, &b->exit);
	if (b->state == SANDBOX_STARTING) {
		start_failed(s, b);
		return;
	}
	pages_cancel(s, b);
	reason_settle(s, b);
	b->state = SANDBOX_ENDED;
	b->kill_at_ms = 0;
	pending_fail_all(s, b, -ESRCH, "The sandbox has ended.");
	client_broadcast_ended(s, b);
}

static void keeper_started(struct spawn *s, struct sandbox *b, const struct keeper_reply *reply)
{
	if (reply->error) {
		b->failure_error = reply->error;
		snprintf(b->failure, sizeof(b->failure), "%.*s", (int)sizeof(reply->message) - 1,
			 reply->message);
		return; /* its exit follows */
	}
	b->state = SANDBOX_RUNNING;
	pending_answer(s, b, SPAWN_START, 0, "");
}

/* The connection is gone before the process is: give it its time to exit. */
static void keeper_lost(struct spawn *s, struct sandbox *b)
{
	watch_close(s, &b->keeper);
	if (!b->kill_at_ms)
		b->kill_at_ms = now_ms() + SANDBOX_STOP_MS;
}

static void keeper_ready(struct spawn *s, struct watch *w, uint32_t events)
{
	struct sandbox *b = SANDBOX_OF(w, keeper);
	struct keeper_reply reply;
	ssize_t n = recv(w->fd, &reply, sizeof(reply), MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(reply) || reply.version != KEEPER_VERSION)
		keeper_lost(s, b);
	else if (reply.verb == KEEPER_STARTED && b->state == SANDBOX_STARTING)
		keeper_started(s, b, &reply);
	else if (reply.verb == KEEPER_DEADLINE)
		pending_answer(s, b, SPAWN_DEADLINE, reply.error, "");
}

/* The keeper was process 1 in there: the kernel has killed and reaped the rest before this. */
static void exit_ready(struct spawn *s, struct watch *w, uint32_t events)
{
	struct sandbox *b = SANDBOX_OF(w, exit);
	struct keeper_reply reply;

	(void)events;
	/* Its last words may still lie in the socket. */
	while (b->keeper.fd >= 0 &&
	       recv(b->keeper.fd, &reply, sizeof(reply), MSG_DONTWAIT) == (ssize_t)sizeof(reply))
		if (reply.verb == KEEPER_STARTED && b->state == SANDBOX_STARTING)
			keeper_started(s, b, &reply);
	sandbox_end(s, b);
}

int sandbox_watch(struct spawn *s, struct sandbox *b, int keeper_fd, int pidfd)
{
	int err;

	b->keeper = (struct watch){ .fd = keeper_fd, .ready = keeper_ready };
	b->exit = (struct watch){ .fd = pidfd, .ready = exit_ready };
	err = watch_add(s, &b->keeper);
	return err ? err : watch_add(s, &b->exit);
}

static int keeper_send(struct sandbox *b, const struct keeper_request *request)
{
	if (b->keeper.fd < 0)
		return -ENOTCONN;
	if (send(b->keeper.fd, request, sizeof(*request), MSG_DONTWAIT | MSG_NOSIGNAL) !=
	    (ssize_t)sizeof(*request))
		return errno ? -errno : -EIO;
	return 0;
}

/* Ends every sandbox: what cannot be asked, or does not obey, is killed. */
int sandbox_stop(struct spawn *s, struct sandbox *b, const char *reason)
{
	struct keeper_request request = { .version = KEEPER_VERSION, .verb = KEEPER_STOP };
	uint64_t now = now_ms();

	if (b->state == SANDBOX_ENDED) {
		client_broadcast_ended(s, b);
		return 0;
	}
	if (!b->reason[0])
		snprintf(b->reason, sizeof(b->reason), "%s", reason);
	memcpy(request.reason, b->reason, sizeof(request.reason));
	if (!b->kill_at_ms)
		b->kill_at_ms = now + SANDBOX_STOP_MS;
	if (keeper_send(b, &request) != 0)
		b->kill_at_ms = now;
	return 0;
}

int sandbox_deadline(struct spawn *s, struct sandbox *b, uint64_t boottime_ns, const struct pending *asker)
{
	const struct keeper_request request = { .version = KEEPER_VERSION,
						.verb = KEEPER_DEADLINE,
						.deadline_boottime_ns = boottime_ns };
	int err;

	(void)s;
	if (b->state == SANDBOX_ENDED)
		return -ESRCH;
	if (b->state == SANDBOX_STARTING || b->pending_count == SANDBOX_PENDING_MAX)
		return -EBUSY;
	err = keeper_send(b, &request);
	if (err)
		return err;
	b->pending[b->pending_count++] = *asker;
	return 1;
}

int sandbox_forget(struct spawn *s, struct sandbox *b)
{
	int err = 0;

	if (b->state != SANDBOX_ENDED)
		return -EBUSY;
	if (!groups_forget(s, b->id))
		err = rundir_remove(s->run_fd, b->id);
	if (!err)
		sandbox_free(s, b);
	return err;
}

/* Its control group is empty and its keeper cannot be watched: it is over. */
static bool kill_one(struct sandbox *b, uint64_t now)
{
	bool empty = false;
	int err = cgroup_kill(&b->cgroup, &empty);

	if (err)
		fprintf(stderr, "carrel-spawn: %s: cannot kill it: %s\n", b->id, strerror(-err));
	b->kill_at_ms = now + SANDBOX_STOP_MS / 4;
	return empty;
}

uint64_t sandbox_kill_late(struct spawn *s, uint64_t now)
{
	uint64_t next = s->exiting ? s->exit_at_ms : 0;

	for (unsigned i = 0; i < SPAWN_SANDBOXES_MAX; i++) {
		struct sandbox *b = s->sandboxes[i];

		if (!b || !b->kill_at_ms)
			continue;
		if (b->kill_at_ms <= now && kill_one(b, now)) {
			sandbox_end(s, b);
			continue;
		}
		if (!next || b->kill_at_ms < next)
			next = b->kill_at_ms;
	}
	return next && next < now ? now : next;
}
