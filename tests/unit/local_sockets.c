/* UNIT: appliance/local appliance/jupyter kernels/core LIBS: -luv -ljansson -lzmq -lcrypto */
/* The sockets of a connection file, with clients of ZeroMQ's own: greetings first, output that nobody takes
 * holds up no reply, a question waits for the socket that it is for. */
#include "appliance/local/local.h"

#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "check.h"
#include "core/sock.h"

enum {
	/* As much as is held, and more than all buffers on the way. */
	PIECE = 64 * 1024,
	PIECES_MAX = 1000,
	WAIT_MS = 10 * 1000,
};

struct stage {
	uv_loop_t loop;
	struct local *local;
	struct connection where;
	char folder[64];
	void *zmq;
	unsigned messages, dropped, writable;
	bool closed;
	struct local_idents idents; /* of the last message */
};

static void on_message(const struct local_message *m, void *arg)
{
	struct stage *s = arg;

	CHECK(strcmp(m->msg_type, "execute_request") == 0 && strcmp(m->msg_id, "m-1") == 0);
	local_idents_free(&s->idents);
	CHECK(local_idents_copy(m->idents, m->n_idents, &s->idents) == 0);
	s->messages++;
}

static void on_writable(void *arg)
{
	((struct stage *)arg)->writable++;
}

static void on_dropped(const char *why, void *arg)
{
	struct stage *s = arg;

	CHECK(strstr(why, "signature is wrong"));
	s->dropped++;
}

static void on_closed(void *arg)
{
	((struct stage *)arg)->closed = true;
}

static const struct local_ops ops = {
	.message = on_message, .writable = on_writable, .dropped = on_dropped, .closed = on_closed
};

static void on_tick(uv_timer_t *t)
{
	(void)t;
}

/* Runs the loop until the word is set. */
static void until(struct stage *s, const unsigned *word)
{
	uv_timer_t tick;
	uint64_t end = uv_hrtime() + WAIT_MS * 1000000ull;

	uv_timer_init(&s->loop, &tick);
	uv_timer_start(&tick, on_tick, 1, 1);
	while (!*word && uv_hrtime() < end)
		uv_run(&s->loop, UV_RUN_ONCE);
	CHECK(*word);
	uv_close((uv_handle_t *)&tick, NULL);
	uv_run(&s->loop, UV_RUN_NOWAIT);
}

static void stage_open(struct stage *s)
{
	char why[256];
	int i;

	*s = (struct stage){ .folder = "/tmp/carrel-local-XXXXXX", .where = { .key = "k", .key_len = 1 } };
	CHECK(mkdtemp(s->folder));
	for (i = 0; i < LOCAL_CHANNELS; i++)
		snprintf(s->where.address[i], sizeof(s->where.address[i]), "ipc://%s/s-%d", s->folder, i + 1);
	uv_loop_init(&s->loop);
	s->zmq = zmq_ctx_new();
	CHECK(local_open(&s->loop, &s->where, &ops, s, &s->local, why, sizeof(why)) == 0);
}

static void stage_close(struct stage *s)
{
	char path[96];
	int i;

	local_idents_free(&s->idents);
	local_close(s->local);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	CHECK(s->closed && uv_loop_close(&s->loop) == 0);
	zmq_ctx_term(s->zmq);
	for (i = 0; i < LOCAL_CHANNELS; i++) {
		snprintf(path, sizeof(path), "%s/s-%d", s->folder, i + 1);
		unlink(path);
	}
	CHECK(rmdir(s->folder) == 0);
}

static void *client(struct stage *s, int type, enum local_channel channel, const char *identity)
{
	void *sock = zmq_socket(s->zmq, type);
	int none = 0, wait = WAIT_MS, few = 1;

	zmq_setsockopt(sock, ZMQ_LINGER, &none, sizeof(none));
	zmq_setsockopt(sock, ZMQ_RCVTIMEO, &wait, sizeof(wait));
	if (identity)
		zmq_setsockopt(sock, ZMQ_IDENTITY, identity, strlen(identity));
	if (type == ZMQ_SUB) {
		zmq_setsockopt(sock, ZMQ_RCVHWM, &few, sizeof(few));
		zmq_setsockopt(sock, ZMQ_SUBSCRIBE, "", 0);
	}
	CHECK(zmq_connect(sock, s->where.address[channel]) == 0);
	return sock;
}

static void ask(void *sock, const char *key)
{
	static const char header[] = "{\"msg_type\":\"execute_request\",\"msg_id\":\"m-1\"}";
	static const struct slice json[WIRE_PARTS] = {
		{ header, sizeof(header) - 1 }, { "{}", 2 }, { "{}", 2 }, { "{}", 2 }
	};
	struct wire_signer signer;
	struct wire_packed p;

	CHECK(wire_signer_init(&signer, key, strlen(key)) == 0);
	CHECK(wire_pack(&signer, NULL, 0, json, NULL, 0, &p) == 0);
	CHECK(sock_send(sock, p.frame, p.n, true) == 0);
	wire_signer_free(&signer);
}

/* The header's msg_type of the next message; the loop runs meanwhile. */
static void expect(struct stage *s, void *sock, const char *type)
{
	uint64_t end = uv_hrtime() + WAIT_MS * 1000000ull;
	struct wire_signer signer;
	struct wire_view v;
	struct frames f;
	int err;

	do {
		uv_run(&s->loop, UV_RUN_NOWAIT);
		err = sock_recv(sock, &f);
	} while (err == -EAGAIN && uv_hrtime() < end);
	CHECK(err == 0);
	CHECK(wire_signer_init(&signer, "k", 1) == 0 && wire_parse(&signer, f.slice, f.n, &v) == 0);
	CHECK(memmem(v.part[WIRE_HEADER].data, v.part[WIRE_HEADER].len, type, strlen(type)));
	wire_signer_free(&signer);
	frames_free(&f);
}

static void replies_reach_who_asked_and_forgeries_nobody(void)
{
	struct stage s;
	void *sock;

	stage_open(&s);
	sock = client(&s, ZMQ_DEALER, LOCAL_SHELL, "one");
	ask(sock, "wrong");
	until(&s, &s.dropped);
	CHECK(s.messages == 0);
	ask(sock, "k");
	until(&s, &s.messages);
	CHECK(local_say(s.local, LOCAL_SHELL, &s.idents, "execute_reply", "{}", 2, "{}") == 0);
	expect(&s, sock, "execute_reply");
	zmq_close(sock);
	stage_close(&s);
}

static void messages_wait_while_they_are_not_read(void)
{
	struct stage s;
	void *sock;
	int i;

	stage_open(&s);
	sock = client(&s, ZMQ_DEALER, LOCAL_SHELL, "one");
	local_read(s.local, false);
	ask(sock, "k");
	for (i = 0; i < 50; i++) {
		uv_run(&s.loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	CHECK(s.messages == 0);
	local_read(s.local, true);
	until(&s, &s.messages);
	zmq_close(sock);
	stage_close(&s);
}

static void output_that_nobody_takes_holds_up_no_reply(void)
{
	static char text[PIECE];
	struct v1_part part[V1_PARTS_MIN] = {
		{ "{\"msg_type\":\"stream\"}", 21 }, { "{}", 2 }, { "{}", 2 }, { text, sizeof(text) }
	};
	struct stage s;
	void *shell, *iopub, *late;
	int i, n = 0;

	memset(text, ' ', sizeof(text));
	stage_open(&s);
	shell = client(&s, ZMQ_DEALER, LOCAL_SHELL, "one");
	iopub = client(&s, ZMQ_SUB, LOCAL_IOPUB, NULL);
	expect(&s, iopub, "iopub_welcome");
	ask(shell, "k");
	until(&s, &s.messages);
	while (n < PIECES_MAX && local_send(s.local, LOCAL_IOPUB, NULL, part, V1_PARTS_MIN) == 0)
		n++;
	CHECK(n < PIECES_MAX && n * PIECE >= LOCAL_HELD_MAX);
	local_say_state(s.local, NULL, 0, "idle");
	CHECK(local_say(s.local, LOCAL_SHELL, &s.idents, "execute_reply", "{}", 2, "{}") == 0);
	expect(&s, shell, "execute_reply");
	CHECK(s.writable == 0);
	/* Whoever comes now is greeted before all else. */
	late = client(&s, ZMQ_SUB, LOCAL_IOPUB, NULL);
	for (i = 0; i < n; i++)
		expect(&s, iopub, "stream");
	expect(&s, iopub, "status");
	CHECK(s.writable == 1);
	expect(&s, late, "iopub_welcome");
	zmq_close(shell);
	zmq_close(iopub);
	zmq_close(late);
	stage_close(&s);
}

static void a_question_waits_for_its_socket(void)
{
	struct stage s;
	void *shell, *questions;
	int i;

	stage_open(&s);
	shell = client(&s, ZMQ_DEALER, LOCAL_SHELL, "one");
	ask(shell, "k");
	until(&s, &s.messages);
	CHECK(local_say(s.local, LOCAL_STDIN, &s.idents, "input_request", "{}", 2, "{}") == 0);
	for (i = 0; i < 50; i++) {
		uv_run(&s.loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	questions = client(&s, ZMQ_DEALER, LOCAL_STDIN, "one");
	expect(&s, questions, "input_request");
	zmq_close(shell);
	zmq_close(questions);
	stage_close(&s);
}

static void ports_of_the_loopback_are_told(void)
{
	struct stage s;
	char why[256];
	int i;

	stage_open(&s);
	local_close(s.local);
	for (i = 0; i < LOCAL_CHANNELS; i++)
		snprintf(s.where.address[i], sizeof(s.where.address[i]), "tcp://127.0.0.1:*");
	CHECK(local_open(&s.loop, &s.where, &ops, &s, &s.local, why, sizeof(why)) == 0);
	for (i = 0; i < LOCAL_CHANNELS; i++)
		CHECK(local_port(s.local, (enum local_channel)i) > 0);
	snprintf(s.where.address[0], sizeof(s.where.address[0]), "ipc:///nowhere/at/all/s");
	CHECK(local_open(&s.loop, &s.where, &ops, &s, &(struct local *){ NULL }, why, sizeof(why)) < 0);
	CHECK(strstr(why, "shell socket cannot be bound"));
	stage_close(&s);
}

int main(void)
{
	replies_reach_who_asked_and_forgeries_nobody();
	messages_wait_while_they_are_not_read();
	output_that_nobody_takes_holds_up_no_reply();
	a_question_waits_for_its_socket();
	ports_of_the_loopback_are_told();
	return 0;
}
