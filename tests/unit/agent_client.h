/* A client of a real agent process for its unit tests: starts `agent_main()` in a
 * child on a unix socket, talks to it over kernels/link, and ends it.
 *
 * Everything waits in the test's own loop; nothing sleeps. */
#ifndef CARREL_TESTS_AGENT_CLIENT_H
#define CARREL_TESTS_AGENT_CLIENT_H

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "check.h"
#include "kernels/agent/agent.h"
#include "link/channel.h"
#include "link/link.h"
#include "link/link_uv.h"

enum { CLIENT_WAIT_MS = 30 * 1000 };

struct client {
	char dir[64];
	pid_t agent;
	uv_loop_t loop;
	struct link *link;
	struct link_uv *binding;
	uv_timer_t timer;
	bool up, overdue;
};

/* One answer. */
struct answer {
	int status;
	bool closed;
	uint8_t *body;
	size_t len;
	json_t *json; /* when the body is JSON */
};

static inline void client_overdue(uv_timer_t *timer)
{
	((struct client *)timer->data)->overdue = true;
}

/* Runs the loop until *what or the time is over. */
static inline void client_wait_at(struct client *c, const bool *what, const char *file, int line)
{
	c->overdue = false;
	uv_timer_start(&c->timer, client_overdue, CLIENT_WAIT_MS, 0);
	while (!*what && !c->overdue)
		uv_run(&c->loop, UV_RUN_ONCE);
	uv_timer_stop(&c->timer);
	if (*what)
		return;
	fprintf(stderr, "%s:%d: waited in vain\n", file, line);
	exit(1);
}

#define client_wait(c, what) client_wait_at(c, what, __FILE__, __LINE__)

static inline void client_on_up(struct link *l, void *arg)
{
	(void)l;
	((struct client *)arg)->up = true;
}

static inline void client_on_down(struct link *l, const char *why, void *arg)
{
	(void)l, (void)why;
	((struct client *)arg)->up = false;
}

static inline void client_want_write(struct link *l, void *arg)
{
	struct client *c = arg;

	(void)l;
	if (c->binding)
		link_uv_kick(c->binding);
}

static inline int client_dial(struct client *c)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), tries;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/agent", c->dir);
	for (tries = 0; connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0; tries++) {
		CHECK(tries < 2000);
		usleep(5000); /* the agent is another process that has just begun */
	}
	return fd;
}

static inline void client_connect(struct client *c)
{
	static const struct link_ops ops = {
		.up = client_on_up,
		.down = client_on_down,
		.want_write = client_want_write,
	};

	c->link = link_new(LINK_CLIENT, &ops, c);
	CHECK_INT(link_uv_open(&c->loop, c->link, client_dial(c), LINK_UV_SOCKET, NULL, NULL, &c->binding),
		  0);
	link_hello(c->link);
	client_wait(c, &c->up);
}

static inline void client_disconnect(struct client *c)
{
	link_uv_close(c->binding);
	c->binding = NULL;
	link_free(c->link);
	c->link = NULL;
	c->up = false;
}

static inline pid_t client_spawn(struct client *c, const char *kernels)
{
	char socket[80], run[80], home[80];
	const char *argv[] = { "carrel-agent", "--test", "--socket",  socket,  "--run", run,
			       "--home",       home,     "--kernels", kernels, NULL };
	pid_t pid;

	snprintf(socket, sizeof(socket), "%s/agent", c->dir);
	snprintf(run, sizeof(run), "%s/run", c->dir);
	snprintf(home, sizeof(home), "%s/home", c->dir);
	mkdir(home, 0755);
	if (geteuid() == 0)
		CHECK(chown(home, 1000, 1000) == 0);
	pid = fork();
	if (pid == 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0)
		_exit(agent_main((int)(sizeof(argv) / sizeof(argv[0])) - 1, (char **)argv));
	return pid;
}

static inline void client_start(struct client *c, const char *kernels)
{
	*c = (struct client){ 0 };
	signal(SIGPIPE, SIG_IGN);
	strcpy(c->dir, "/tmp/carrel-agent-XXXXXX");
	CHECK(mkdtemp(c->dir) != NULL);
	chmod(c->dir, 0755);
	c->agent = client_spawn(c, kernels);
	CHECK(c->agent > 0);
	uv_loop_init(&c->loop);
	uv_timer_init(&c->loop, &c->timer);
	c->timer.data = c;
	client_connect(c);
}

static inline void client_stop(struct client *c)
{
	char command[128];
	int status;

	client_disconnect(c);
	kill(c->agent, SIGTERM);
	CHECK(waitpid(c->agent, &status, 0) == c->agent);
	CHECK_INT(status, 0);
	uv_close((uv_handle_t *)&c->timer, NULL);
	uv_run(&c->loop, UV_RUN_DEFAULT);
	uv_loop_close(&c->loop);
	snprintf(command, sizeof(command), "rm -rf %s", c->dir);
	CHECK_INT(system(command), 0);
}

static inline void answer_response(struct link_stream *st, int status, void *arg)
{
	(void)st;
	((struct answer *)arg)->status = status;
}

static inline void answer_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	struct answer *a = arg;

	a->body = realloc(a->body, a->len + len + 1);
	memcpy(a->body + a->len, bytes, len);
	a->body[a->len + len] = 0;
	a->len += len;
	link_consume(st, len);
}

static inline void answer_closed(struct link_stream *st, int err, void *arg)
{
	struct answer *a = arg;

	(void)st;
	if (err && !a->status)
		a->status = err;
	a->closed = true;
}

static const struct link_stream_ops answer_ops = {
	.response = answer_response,
	.data = answer_data,
	.closed = answer_closed,
};

static inline void answer_clear(struct answer *a)
{
	free(a->body);
	json_decref(a->json);
	*a = (struct answer){ 0 };
}

/* A request with a whole body (NULL: none); the answer is in *a. */
static inline void ask_bytes(struct client *c, struct answer *a, const char *method, const char *path,
			     const void *body, size_t len)
{
	struct link_stream *st;
	size_t at = 0;

	answer_clear(a);
	CHECK_INT(link_open(c->link, method, path, body != NULL, &answer_ops, a, &st), 0);
	while (body && at < len && !a->closed) {
		at += link_write(st, (const char *)body + at, len - at);
		if (at < len)
			uv_run(&c->loop, UV_RUN_ONCE);
	}
	if (body && !a->closed)
		link_end(st);
	client_wait(c, &a->closed);
	if (a->len)
		a->json = json_loadb((char *)a->body, a->len, 0, NULL);
}

static inline void ask(struct client *c, struct answer *a, const char *method, const char *path,
		       const char *body)
{
	ask_bytes(c, a, method, path, body, body ? strlen(body) : 0);
}

static inline const char *answer_text(const struct answer *a, const char *name)
{
	return json_string_value(json_object_get(a->json, name));
}

#define IDENTITY                                                                                             \
	"{\"unix_ns\":1764400000000000000,\"hostname\":\"desk-1\",\"machine_id\":"                           \
	"\"0123456789abcdef0123456789abcdef\",\"boot_id\":\"01234567-89ab-cdef-0123-456789abcdef\","         \
	"\"entropy\":"                                                                                       \
	"\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" \
	"AAAAAAAAAAAAAAAAAAAAAAAA\",\"env\":{\"COLOUR\":\"green\"},\"limits\":{\"memory_mb\":512}}"

static inline void client_identify(struct client *c)
{
	struct answer a = { 0 };

	ask(c, &a, "PUT", "/identity", IDENTITY);
	CHECK_INT(a.status, 200);
	answer_clear(&a);
}

#endif
