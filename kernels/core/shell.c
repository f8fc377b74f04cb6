#include "core/shell.h"
#include "core/core.h"
#include "core/log.h"
#include "core/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static __thread struct shell *self;

struct shell *shell_self(struct core *c)
{
	return self ? self : &c->shell_line;
}

void shell_init(struct shell *s, struct core *c)
{
	*s = (struct shell){ .core = c };
	s->tail = &s->pending;
	pthread_cond_init(&s->wake, NULL);
}

void shell_enter(struct shell *s)
{
	self = s;
}

static void append(struct shell *s, struct request *r)
{
	*s->tail = r;
	s->tail = &r->next;
	s->arrived++;
}

bool shell_route(struct core *c, struct request *r)
{
	const char *id = json_string_value(json_object_get(r->header, "subshell_id"));
	struct shell *s = &c->shell_line;

	pthread_mutex_lock(&c->queue_lock);
	for (s = id && *id ? c->subshells : s; s && *s->id && strcmp(s->id, id); s = s->next)
		;
	if (s)
		append(s, r);
	if (s && *s->id)
		pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&c->queue_lock);
	if (s == &c->shell_line && c->shell_handed)
		core_wake(c);
	return s != NULL;
}

/* ---- the socket ---- */

/* The main thread may use the socket; unlock c->shell_lock afterwards. */
static bool own_socket(struct core *c)
{
	/* The control thread waits for the lock: leave it to it. */
	if (atomic_load(&c->shell_wanted))
		return false;
	pthread_mutex_lock(&c->shell_lock);
	if (!c->shell_handed)
		return true;
	pthread_mutex_unlock(&c->shell_lock);
	return false;
}

void shell_take_over(struct core *c)
{
	if (c->shell_handed)
		return;
	atomic_store(&c->shell_wanted, true);
	core_wake(c);
	pthread_mutex_lock(&c->shell_lock);
	c->shell_handed = true;
	pthread_mutex_unlock(&c->shell_lock);
}

static void route_or_refuse(struct core *c, struct request *r)
{
	if (shell_route(c, r))
		return;
	/* Refused when its turn comes, in the order of all others. */
	r->lost = true;
	pthread_mutex_lock(&c->queue_lock);
	append(&c->shell_line, r);
	pthread_mutex_unlock(&c->queue_lock);
}

void shell_receive(struct core *c)
{
	struct request *r;
	struct frames frames;
	int err;

	if (!own_socket(c))
		return;
	while ((err = sock_recv(c->shell, &frames)) != -EAGAIN) {
		if (!err)
			err = request_parse(&c->signer, CHANNEL_SHELL, &frames, &r);
		if (!err)
			route_or_refuse(c, r);
		else if (!reply_is_skipped(err))
			break;
		else
			log_line("shell: a message was skipped: %s", reply_skip_reason(err));
	}
	pthread_mutex_unlock(&c->shell_lock);
}

void shell_wait(struct core *c, int timeout_ms)
{
	bool own = own_socket(c);
	zmq_pollitem_t items[] = {
		{ .fd = c->wake_fd, .events = ZMQ_POLLIN },
		{ .socket = c->shell, .events = ZMQ_POLLIN },
	};
	uint64_t count;

	if (zmq_poll(items, own ? 2 : 1, timeout_ms) > 0 && items[0].revents &&
	    read(c->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_line("shell: cannot read the wake-up: %s", strerror(errno));
	if (own)
		pthread_mutex_unlock(&c->shell_lock);
}

int shell_fd(struct core *c)
{
	int fd = -1;
	size_t size = sizeof(fd);

	if (!own_socket(c))
		return -1;
	if (zmq_getsockopt(c->shell, ZMQ_FD, &fd, &size))
		fd = -1;
	pthread_mutex_unlock(&c->shell_lock);
	return fd;
}

void shell_reply(struct core *c, const struct request *r, const char *type, json_t *content)
{
	char *text;
	int err;

	if (r->channel == CHANNEL_CONTROL || *shell_self(c)->id || !own_socket(c)) {
		control_reply(&c->control, r, type, content);
		return;
	}
	text = json_dumps(content, JSON_COMPACT);
	json_decref(content);
	err = text ? reply_send(c->shell, &c->signer, &c->session, r, type, (struct slice){ text, strlen(text) }) :
		     -ENOMEM;
	pthread_mutex_unlock(&c->shell_lock);
	if (err)
		log_line("shell: a %s was lost: %s", type, strerror(-err));
	free(text);
}

/* ---- a line ---- */

static struct request *take(struct shell *s, struct request **at)
{
	struct request *r = *at;

	if (!r)
		return NULL;
	*at = r->next;
	if (!r->next)
		s->tail = at;
	r->next = NULL;
	return r;
}

struct request *shell_next(struct shell *s)
{
	struct request *r;

	pthread_mutex_lock(&s->core->queue_lock);
	r = take(s, &s->pending);
	pthread_mutex_unlock(&s->core->queue_lock);
	return r;
}

bool shell_is_empty(struct shell *s)
{
	bool empty;

	pthread_mutex_lock(&s->core->queue_lock);
	empty = !s->pending;
	pthread_mutex_unlock(&s->core->queue_lock);
	return empty;
}

static bool is_comm(const struct request *r)
{
	return !strcmp(r->type, "comm_msg") || !strcmp(r->type, "comm_close");
}

struct request *shell_next_comm(struct core *c)
{
	struct shell *s = &c->shell_line;
	struct request **at = &s->pending, *r;

	pthread_mutex_lock(&c->queue_lock);
	while (*at && !is_comm(*at))
		at = &(*at)->next;
	r = take(s, at);
	pthread_mutex_unlock(&c->queue_lock);
	return r;
}

static unsigned long arrived(struct shell *s)
{
	unsigned long n;

	pthread_mutex_lock(&s->core->queue_lock);
	n = s->arrived;
	pthread_mutex_unlock(&s->core->queue_lock);
	return n;
}

static void wait_more(struct shell *s)
{
	struct timespec deadline;

	if (s == &s->core->shell_line) {
		shell_wait(s->core, CORE_ABORT_GATHER_MS);
		shell_receive(s->core);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_nsec += CORE_ABORT_GATHER_MS * 1000000L;
	deadline.tv_sec += deadline.tv_nsec / 1000000000;
	deadline.tv_nsec %= 1000000000;
	pthread_mutex_lock(&s->core->queue_lock);
	pthread_cond_timedwait(&s->wake, &s->core->queue_lock, &deadline);
	pthread_mutex_unlock(&s->core->queue_lock);
}

void shell_abort_queued(struct shell *s)
{
	struct request *r;
	unsigned long seen;

	if (s == &s->core->shell_line)
		shell_receive(s->core);
	do {
		seen = arrived(s);
		wait_more(s);
	} while (arrived(s) != seen);
	pthread_mutex_lock(&s->core->queue_lock);
	for (r = s->pending; r; r = r->next) {
		if (!strcmp(r->type, "execute_request"))
			r->aborted = true;
	}
	pthread_mutex_unlock(&s->core->queue_lock);
}
