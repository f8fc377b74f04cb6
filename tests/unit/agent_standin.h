/* A kernel and a prepared parent as small as the protocol allows, for the tests
 * of the agent: real sockets, real signatures, and a language of a few words:
 *
 *   print TEXT | flood N | big N | bigreply N | input | loop | exit N | segv
 *   gasp TEXT (prints to descriptor 1 and dies) | moan | moan spoilt | hold (dies while a child keeps its sockets) | seed (what
 * identity brought)
 */
#ifndef CARREL_TESTS_AGENT_STANDIN_H
#define CARREL_TESTS_AGENT_STANDIN_H

#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "kernels/agent/sign.h"
#include "kernels/agent/wire.h"
#include "kernels/core/unsent.h"

struct standin {
	void *ctx, *shell, *iopub, *in, *control;
	struct signer *signer; /* NULL: no key */
	struct unsent *unsent; /* NULL: was not asked for */
	char seed[128], session[24];
	unsigned messages;
};

struct standin_request {
	char *ident, *header;
	size_t ident_len;
	json_t *content;
	char type[64];
};

static volatile sig_atomic_t standin_interrupted;

static inline void standin_sigint(int signum)
{
	(void)signum;
	standin_interrupted = 1;
}

static inline void standin_send_part(void *socket, const void *bytes, size_t len, int more)
{
	while (zmq_send(socket, bytes, len, more) < 0 && errno == EINTR)
		;
}

static inline void standin_send(struct standin *s, void *socket, const char *ident, size_t ident_len,
				const char *type, const char *parent, json_t *content)
{
	char *text = json_dumps(content, JSON_COMPACT), hex[SIGN_HEX], header[256];
	struct wire_message m = { .n = WIRE_SIGNED };
	unsigned i;

	snprintf(header, sizeof(header),
		 "{\"msg_id\":\"%s-%u\",\"session\":\"%s\",\"username\":\"k\",\"date\":\"\",\"msg_type\": "
		 "\"%s\","
		 "\"version\":\"5.3\"}",
		 s->session, ++s->messages, s->session, type);
	m.part[WIRE_HEADER] = wire_text(header);
	m.part[WIRE_PARENT] = wire_text(parent);
	m.part[WIRE_METADATA] = wire_text("{}");
	m.part[WIRE_CONTENT] = wire_text(text);
	if (s->signer)
		signer_sign(s->signer, &m, hex);
	standin_send_part(socket, ident, ident_len, ZMQ_SNDMORE);
	standin_send_part(socket, "<IDS|MSG>", 9, ZMQ_SNDMORE);
	standin_send_part(socket, hex, s->signer ? sizeof(hex) : 0, ZMQ_SNDMORE);
	for (i = 0; i < m.n; i++)
		standin_send_part(socket, m.part[i].bytes, m.part[i].len, i + 1 < m.n ? ZMQ_SNDMORE : 0);
	free(text);
	json_decref(content);
}

static inline void standin_publish(struct standin *s, const char *type, const char *parent, json_t *content)
{
	standin_send(s, s->iopub, type, strlen(type), type, parent, content);
}

static inline char *standin_part(void *socket, size_t *ret_len)
{
	zmq_msg_t msg;
	char *copy;

	zmq_msg_init(&msg);
	while (zmq_msg_recv(&msg, socket, 0) < 0)
		if (errno != EINTR)
			return NULL;
	*ret_len = zmq_msg_size(&msg);
	copy = calloc(1, *ret_len + 1);
	memcpy(copy, zmq_msg_data(&msg), *ret_len);
	zmq_msg_close(&msg);
	return copy;
}

/* A request with exactly the parts the agent sends. False: interrupted. */
static inline bool standin_receive(struct standin *s, void *socket, struct standin_request *r)
{
	char *part[7];
	size_t len[7];
	struct wire_message m = { .n = WIRE_SIGNED };
	int i;

	for (i = 0; i < 7; i++)
		if (!(part[i] = standin_part(socket, &len[i])))
			return false;
	for (i = 0; i < 4; i++)
		m.part[i] = (struct wire_part){ (const uint8_t *)part[3 + i], len[3 + i] };
	if (s->signer ? !signer_check(s->signer, &m, part[2], len[2]) : len[2] > 0) {
		fprintf(stderr, "a wrongly signed request\n");
		_exit(77);
	}
	*r = (struct standin_request){ .ident = part[0], .ident_len = len[0], .header = part[3] };
	snprintf(r->type, sizeof(r->type), "%.*s", (int)wire_field(m.part[0], "msg_type").len,
		 (const char *)wire_field(m.part[0], "msg_type").bytes);
	r->content = json_loads(part[6], 0, NULL);
	free(part[1]), free(part[2]), free(part[4]), free(part[5]), free(part[6]);
	return true;
}

static inline char *standin_letters(size_t n)
{
	char *text = malloc(n + 1);

	memset(text, 'z', n);
	text[n] = '\0';
	return text;
}

static inline void standin_stream(struct standin *s, const char *parent, const char *text)
{
	standin_publish(s, "stream", parent, json_pack("{s:s, s:s}", "name", "stdout", "text", text));
}

static inline void standin_record(struct unsent *u, uint64_t *at, uint8_t kind, const char *payload, size_t len)
{
	uint8_t bytes[256] = { (uint8_t)len, 0, 0, 0, kind };
	size_t i;

	memcpy(bytes + UNSENT_HEAD, payload, len);
	for (i = 0; i < UNSENT_HEAD + len; i++)
		u->ring[(*at)++ % UNSENT_RING] = bytes[i];
}

/* Dies with "one " sent, "two ", a display and "err" not, "three" in its pipe, and "fo" kept as a line. The records go
 * over the ring's end. spoilt: what follows them is none, and the line is too long. */
static inline void standin_moan(struct standin *s, const char *parent, bool spoilt)
{
	static const char display[] = "\3\5\0\0\0\14\0\0\0display_data\2\0\0\0{}\2\0\0\0{}"
				      "\14\0\0\0{\"text\":\"x\"}\1\0\0\0B";
	uint64_t at = UNSENT_RING - 20;
	char topic[64];

	standin_record(s->unsent, &at, UNSENT_STDOUT, "\2\0\0\0{}one ", 10);
	snprintf(topic, sizeof(topic), "stream.stdout@%llu", (unsigned long long)at);
	standin_send(s, s->iopub, topic, strlen(topic), "stream", parent,
		     json_pack("{s:s, s:s}", "name", "stdout", "text", "one "));
	standin_record(s->unsent, &at, UNSENT_STDOUT, "\2\0\0\0{}two ", 10);
	standin_record(s->unsent, &at, UNSENT_MESSAGE, display, sizeof(display) - 1);
	standin_record(s->unsent, &at, UNSENT_STDERR, "\2\0\0\0{}err", 9);
	if (spoilt) /* a parent longer than its record */
		standin_record(s->unsent, &at, UNSENT_STDOUT, "\7\0\0\0{}x", 7);
	atomic_store(&s->unsent->put, at);
	memcpy(s->unsent->line[0].text, "fo", 2);
	s->unsent->line[0].n = spoilt ? UINT64_MAX : 2;
	dprintf(1, "three");
	zmq_close(s->shell), zmq_close(s->in), zmq_close(s->control), zmq_close(s->iopub);
	zmq_ctx_term(s->ctx);
	kill(getpid(), SIGKILL);
}

static inline struct unsent *standin_memory(void)
{
	int fd = memfd_create(UNSENT_NAME, MFD_CLOEXEC);
	void *at = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(struct unsent)) == 0)
		at = mmap(NULL, sizeof(struct unsent), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		_exit(80);
	return at;
}

static inline void standin_input(struct standin *s, struct standin_request *r)
{
	struct standin_request answer;

	standin_send(s, s->in, r->ident, r->ident_len, "input_request", r->header,
		     json_pack("{s:s, s:b}", "prompt", "name? ", "password", 0));
	if (standin_receive(s, s->in, &answer))
		standin_stream(s, r->header, json_string_value(json_object_get(answer.content, "value")));
}

static inline bool standin_serve_control(struct standin *s);

static inline json_t *standin_execute(struct standin *s, struct standin_request *r)
{
	const char *code = json_string_value(json_object_get(r->content, "code")), *arg = strchr(code, ' ');
	long n = arg ? strtol(arg, NULL, 10) : 0, i;
	char line[1100];

	if (strncmp(code, "print ", 6) == 0)
		standin_stream(s, r->header, arg + 1);
	for (i = 0; strncmp(code, "flood", 5) == 0 && i < n; i++) {
		snprintf(line, sizeof(line), "%08ld%1016s", i, ".");
		standin_stream(s, r->header, line);
	}
	if (strncmp(code, "big ", 4) == 0) {
		char *text = standin_letters((size_t)n);

		standin_publish(s, "display_data", r->header,
				json_pack("{s:{s:s}}", "data", "text/plain", text));
		free(text);
	}
	if (strncmp(code, "bigreply ", 9) == 0)
		return json_pack("{s:s, s:s+}", "status", "ok", "text", standin_letters((size_t)n), "");
	if (strcmp(code, "input") == 0)
		standin_input(s, r);
	if (strcmp(code, "seed") == 0)
		standin_stream(s, r->header, s->seed);
	if (strncmp(code, "exit ", 5) == 0) {
		standin_stream(s, r->header, "last words");
		zmq_close(s->shell), zmq_close(s->in), zmq_close(s->control), zmq_close(s->iopub);
		zmq_ctx_term(s->ctx);
		_exit((int)n);
	}
	if (strcmp(code, "segv") == 0) {
		fprintf(stderr, "Fatal: it burns\n");
		signal(SIGSEGV, SIG_DFL);
		kill(getpid(), SIGSEGV);
	}
	if (strncmp(code, "gasp ", 5) == 0) {
		dprintf(1, "%s", code + 5);
		kill(getpid(), SIGKILL);
	}
	if (strncmp(code, "moan", 4) == 0)
		standin_moan(s, r->header, arg != NULL);
	if (strcmp(code, "hold") == 0) {
		if (fork() == 0) {
			setsid();
			alarm(3);
			for (;;)
				pause();
		}
		_exit(5);
	}
	standin_interrupted = 0;
	while (strcmp(code, "loop") == 0 && !standin_interrupted) {
		struct timespec ms = { .tv_nsec = 1000000 };

		standin_serve_control(s);
		nanosleep(&ms, NULL);
	}
	if (standin_interrupted)
		return json_pack("{s:s, s:s}", "status", "error", "ename", "KeyboardInterrupt");
	return json_pack("{s:s}", "status", "ok");
}

static inline void standin_serve(struct standin *s, void *socket, struct standin_request *r)
{
	json_t *reply = json_pack("{s:s}", "status", "ok");
	char type[80];

	standin_publish(s, "status", r->header, json_pack("{s:s}", "execution_state", "busy"));
	if (strcmp(r->type, "execute_request") == 0) {
		json_decref(reply);
		reply = standin_execute(s, r);
	} else if (strcmp(r->type, "carrel_identity_request") == 0) {
		snprintf(s->seed, sizeof(s->seed), "%.100s",
			 json_string_value(json_object_get(r->content, "entropy")));
	} else if (strcmp(r->type, "interrupt_request") == 0) {
		standin_interrupted = 1;
	}
	snprintf(type, sizeof(type), "%.*s_reply", (int)(strlen(r->type) - strlen("_request")), r->type);
	standin_send(s, socket, r->ident, r->ident_len, type, r->header, reply);
	standin_publish(s, "status", r->header, json_pack("{s:s}", "execution_state", "idle"));
	if (strcmp(r->type, "shutdown_request") == 0)
		_exit(0);
}

static inline bool standin_serve_one(struct standin *s, void *socket)
{
	struct standin_request r;

	if (!standin_receive(s, socket, &r))
		return false;
	standin_serve(s, socket, &r);
	free(r.ident), free(r.header);
	json_decref(r.content);
	return true;
}

static inline bool standin_serve_control(struct standin *s)
{
	zmq_pollitem_t item = { .socket = s->control, .events = ZMQ_POLLIN };

	return zmq_poll(&item, 1, 0) > 0 && standin_serve_one(s, s->control);
}

static inline void *standin_bind(void *ctx, int type, json_t *conn, const char *port)
{
	void *socket = zmq_socket(ctx, type);
	char address[256];
	int one = 1;

	snprintf(address, sizeof(address), "ipc://%s-%d", json_string_value(json_object_get(conn, "ip")),
		 (int)json_integer_value(json_object_get(conn, port)));
	if (type == ZMQ_XPUB)
		zmq_setsockopt(socket, ZMQ_XPUB_NODROP, &one, sizeof(one));
	if (zmq_bind(socket, address) < 0) {
		perror(address);
		_exit(78);
	}
	return socket;
}

static inline __attribute__((noreturn)) void standin_kernel(json_t *conn, const char *seed)
{
	void *ctx = zmq_ctx_new();
	const char *key = json_string_value(json_object_get(conn, "key"));
	struct standin s = { .ctx = ctx, .signer = key[0] ? signer_new(key) : NULL };

	if (json_is_true(json_object_get(conn, "carrel_unsent")))
		s.unsent = standin_memory();
	signal(SIGINT, standin_sigint);
	snprintf(s.session, sizeof(s.session), "s%d", (int)getpid());
	snprintf(s.seed, sizeof(s.seed), "%s", seed);
	s.shell = standin_bind(ctx, ZMQ_ROUTER, conn, "shell_port");
	s.iopub = standin_bind(ctx, ZMQ_XPUB, conn, "iopub_port");
	s.in = standin_bind(ctx, ZMQ_ROUTER, conn, "stdin_port");
	s.control = standin_bind(ctx, ZMQ_ROUTER, conn, "control_port");
	for (;;) {
		zmq_pollitem_t items[] = {
			{ .socket = s.control, .events = ZMQ_POLLIN },
			{ .socket = s.shell, .events = ZMQ_POLLIN },
			{ .socket = s.iopub, .events = ZMQ_POLLIN },
		};
		char topic[64];

		if (zmq_poll(items, 3, -1) < 0)
			continue;
		if (items[2].revents)
			zmq_recv(s.iopub, topic, sizeof(topic), 0);
		if (items[0].revents)
			standin_serve_one(&s, s.control);
		if (items[1].revents)
			standin_serve_one(&s, s.shell);
	}
}

static inline void standin_tell(json_t *packet)
{
	char *text = json_dumps(packet, 0);

	if (send(3, text, strlen(text), MSG_NOSIGNAL) < 0)
		_exit(1);
	free(text);
	json_decref(packet);
}

static inline void standin_fork(json_t *packet, int stderr_fd, const char *seed)
{
	pid_t pid = fork();

	if (pid == 0) {
		int out[2];

		/* As a real kernel it would read what is printed, but never does. */
		if (pipe(out) < 0 || dup2(out[1], 1) < 0)
			_exit(78);
		setsid();
		signal(SIGCHLD, SIG_DFL);
		dup2(stderr_fd, 2);
		close(3);
		if (geteuid() == 0 && (setgid(1000) < 0 || setuid(1000) < 0))
			_exit(79);
		standin_kernel(json_object_get(packet, "connection"), seed);
	}
	standin_tell(json_pack("{s:s, s:s, s:i}", "op", "forked", "id",
			       json_string_value(json_object_get(packet, "id")), "pid", (int)pid));
}

static inline void standin_reap(int signum)
{
	int status;
	pid_t pid;

	(void)signum;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		standin_tell(json_pack("{s:s, s:i, s:i}", "op", "exited", "pid", (int)pid, "status", status));
}

static inline int standin_parent(void)
{
	static char text[128 * 1024 + 1], control[128], seed[128] = "none";
	struct sigaction sa = { .sa_handler = standin_reap, .sa_flags = SA_RESTART };

	sigaction(SIGCHLD, &sa, NULL);
	standin_tell(json_pack("{s:s}", "op", "ready"));
	for (;;) {
		struct iovec iov = { text, sizeof(text) - 1 };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control,
				      .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(3, &msg, 0);
		json_t *packet;
		int fds[2];

		if (n <= 0)
			return 0;
		packet = json_loadb(text, (size_t)n, 0, NULL);
		if (strcmp(json_string_value(json_object_get(packet, "op")), "identity") == 0) {
			snprintf(seed, sizeof(seed), "%s",
				 json_string_value(json_object_get(packet, "entropy")));
			standin_tell(json_pack("{s:s, s:b}", "op", "identity", "ok", 1));
		} else {
			memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fds));
			standin_fork(packet, fds[0], seed);
			close(fds[0]), close(fds[1]);
		}
		json_decref(packet);
	}
}

/* Called first in main(): takes over when this process is a stand-in. */
static inline void standin_main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], "--kernel") == 0)
		standin_kernel(json_load_file(argv[2], 0, NULL), "own");
	if (argc > 1 && strcmp(argv[1], "--parent") == 0)
		_exit(standin_parent());
}

/* Writes kernelspecs "plain" (by argv) and "ready" (by a prepared parent) into dir. */
static inline void standin_specs(const char *dir)
{
	char self[256], path[512];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	json_t *spec;
	int i;

	self[n < 0 ? 0 : n] = '\0';
	for (i = 0; i < 2; i++) {
		spec = json_pack("{s:[s, s, s], s:s, s:s, s:s}", "argv", self, "--kernel",
				 "{connection_file}", "display_name", "x", "language",
				 i ? "prepared" : "bare", "interrupt_mode", i ? "message" : "signal");
		if (i)
			json_object_set_new(
				spec, "metadata",
				json_pack("{s:{s:[s, s]}}", "carrel", "parent", self, "--parent"));
		snprintf(path, sizeof(path), "mkdir -p %s/%s", dir, i ? "ready" : "plain");
		if (system(path) != 0)
			exit(1);
		snprintf(path, sizeof(path), "%s/%s/kernel.json", dir, i ? "ready" : "plain");
		if (json_dump_file(spec, path, 0) < 0)
			exit(1);
		json_decref(spec);
	}
}

#endif
