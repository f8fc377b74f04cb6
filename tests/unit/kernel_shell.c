/* UNIT: kernels/core LIBS: -lzmq -ljansson -lcrypto */
/* Requests and their lines: subshells beside the main shell, each in its own
 * order; who is refused; comms before what waits; a kernel without a language. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "tests/unit/check.h"

enum { MESSAGES_MAX = 200 };

static struct core core;
static char folder[] = "/tmp/carrel-shell-XXXXXX";
static void *ctx, *shell, *control, *iopub;
static atomic_int comms, begun;
static int sent;

/* ---- a language: "fail" fails, "comm" waits for a comm message, anything else is said back */

static json_t *info(void *lang)
{
	(void)lang;
	return json_pack("{s:s}", "status", "ok");
}

/* What a client sent together with a request may still be on its way. */
static void wait_for_next(struct core *c)
{
	struct shell *s = shell_self(c);
	bool found = false;
	int i;

	for (i = 0; i < 10000 && !found; i++) {
		if (s == &c->shell_line)
			shell_receive(c);
		pthread_mutex_lock(&c->queue_lock);
		found = s->pending != NULL;
		pthread_mutex_unlock(&c->queue_lock);
		if (!found)
			usleep(1000);
	}
}

static json_t *execute(void *lang, struct core *c, const struct request *r)
{
	const char *code = json_string_value(json_object_get(r->content, "code"));
	static atomic_int count;
	int i;

	(void)lang;
	for (i = 0; !strcmp(code, "comm") && atomic_load(&comms) == 0 && i < 10000; i++) {
		core_serve_comms(c);
		shell_wait(c, 1);
	}
	if (!strcmp(code, "fail"))
		wait_for_next(c);
	core_publish_about(c, r->parent, false, "display_data", json_pack("{s:s}", "code", code), NULL, NULL, 0);
	return json_pack("{s:s, s:i, s:s}", "status", strcmp(code, "fail") ? "ok" : "error", "execution_count",
			 atomic_fetch_add(&count, 1), "ename", "Failed");
}

static json_t *comm(void *lang, struct core *c, const struct request *r)
{
	(void)lang;
	(void)c;
	CHECK_INT(r->view.n_buffers, 1);
	atomic_fetch_add(&comms, 1);
	return NULL;
}

static bool thread_begin(void *lang, const char *id)
{
	(void)lang;
	CHECK_INT(strlen(id), SHELL_ID_LEN);
	atomic_fetch_add(&begun, 1);
	return true;
}

static void thread_end(void *lang)
{
	(void)lang;
	atomic_fetch_sub(&begun, 1);
}

static const struct lang_ops ops = { .kernel_info = info, .execute = execute, .comm = comm,
				     .thread_begin = thread_begin, .thread_end = thread_end };

/* ---- a client */

static void connect_to(void **sock, int type, int port)
{
	char address[200];

	snprintf(address, sizeof(address), "ipc://%s/k-%d", folder, port);
	*sock = zmq_socket(ctx, type);
	CHECK_INT(zmq_connect(*sock, address), 0);
}

static int send_request(void *sock, const char *type, const char *subshell, json_t *content)
{
	json_t *header = json_pack("{s:o, s:s, s:s*}", "msg_id", json_sprintf("m%d", ++sent), "msg_type", type,
				   "subshell_id", subshell);
	char *head = json_dumps(header, 0), *body = json_dumps(content, 0);
	const char *frame[] = { "<IDS|MSG>", "", head, "{}", "{}", body, "buffer" };
	size_t i, n = strstr(type, "comm_") ? 7 : 6;

	for (i = 0; i < n; i++)
		CHECK(zmq_send(sock, frame[i], strlen(frame[i]), i + 1 < n ? ZMQ_SNDMORE : 0) >= 0);
	json_decref(header);
	json_decref(content);
	free(head);
	free(body);
	return sent;
}

static int run(const char *code, const char *subshell)
{
	return send_request(shell, "execute_request", subshell, json_pack("{s:s}", "code", code));
}

/* The content of the next message, and which request it answers. */
static json_t *receive(void *sock, int *ret_parent)
{
	zmq_pollitem_t item = { .socket = sock, .events = ZMQ_POLLIN };
	struct wire_signer none = { 0 };
	struct frames frames;
	struct wire_view v;
	json_t *parent, *content;

	CHECK_INT(zmq_poll(&item, 1, 20000), 1);
	CHECK_INT(sock_recv(sock, &frames), 0);
	CHECK_INT(wire_parse(&none, frames.slice, frames.n, &v), 0);
	parent = json_loadb(v.part[WIRE_PARENT].data, v.part[WIRE_PARENT].len, 0, NULL);
	content = json_loadb(v.part[WIRE_CONTENT].data, v.part[WIRE_CONTENT].len, 0, NULL);
	CHECK(json_string_value(json_object_get(parent, "msg_id")) != NULL);
	*ret_parent = atoi(json_string_value(json_object_get(parent, "msg_id")) + 1);
	json_decref(parent);
	frames_free(&frames);
	return content;
}

/* The statuses of the next n replies of the shell channel, by request. */
static void replies(int n, char status[MESSAGES_MAX][16])
{
	json_t *content;
	int at;

	while (n-- > 0) {
		content = receive(shell, &at);
		CHECK(at < MESSAGES_MAX);
		snprintf(status[at], 16, "%s", json_string_value(json_object_get(content, "status")));
		json_decref(content);
	}
}

static json_t *ask_control(const char *type, json_t *content)
{
	int at, id = send_request(control, type, NULL, content);
	json_t *reply = receive(control, &at);

	CHECK_INT(at, id);
	return reply;
}

static void create(char id[SHELL_ID_LEN + 1])
{
	json_t *reply = ask_control("create_subshell_request", json_object());

	snprintf(id, SHELL_ID_LEN + 1, "%s", json_string_value(json_object_get(reply, "subshell_id")));
	CHECK_INT(strlen(id), SHELL_ID_LEN);
	json_decref(reply);
}

static void delete(const char *id, const char *want)
{
	json_t *reply = ask_control("delete_subshell_request", json_pack("{s:s}", "subshell_id", id));

	CHECK_STR(json_string_value(json_object_get(reply, "status")), want);
	json_decref(reply);
}

/* ---- tests */

static void test_main_only(void)
{
	char status[MESSAGES_MAX][16] = { "" };
	int ids[3] = { run("1", NULL), run("fail", NULL), run("2", NULL) }, lost;

	replies(3, status);
	CHECK_STR(status[ids[0]], "ok");
	CHECK_STR(status[ids[1]], "error");
	CHECK_STR(status[ids[2]], "aborted");
	lost = run("1", "nobody's");
	replies(1, status);
	CHECK_STR(status[lost], "error");
}

static void test_comm_overtakes(void)
{
	char status[MESSAGES_MAX][16] = { "" };
	int waits = run("comm", NULL), later = run("later", NULL);

	send_request(shell, "comm_msg", NULL, json_pack("{s:s}", "comm_id", "c"));
	replies(2, status);
	CHECK_STR(status[waits], "ok");
	CHECK_STR(status[later], "ok");
	CHECK_INT(atomic_load(&comms), 1);
}

static void test_subshells(void)
{
	char status[MESSAGES_MAX][16] = { "" }, a[SHELL_ID_LEN + 1], b[SHELL_ID_LEN + 1];
	int ids[6], i;

	create(a);
	create(b);
	CHECK_INT(atomic_load(&begun), 2);
	ids[0] = run("fail", a);
	ids[1] = run("x", a);
	ids[2] = run("y", b);
	ids[3] = run("fail", NULL);
	ids[4] = run("z", NULL);
	ids[5] = run("y", b);
	replies(6, status);
	for (i = 0; i < 6; i++)
		CHECK_STR(status[ids[i]], i == 0 || i == 3 ? "error" : i == 1 || i == 4 ? "aborted" : "ok");
	delete(a, "ok");
	delete(a, "error");
	ids[0] = run("x", a);
	ids[1] = run("x", b);
	replies(2, status);
	CHECK_STR(status[ids[0]], "error");
	CHECK_STR(status[ids[1]], "ok");
	delete(b, "ok");
	CHECK_INT(atomic_load(&begun), 0);
}

static void test_many(void)
{
	char id[SUBSHELLS_MAX][SHELL_ID_LEN + 1];
	json_t *reply;
	int i;

	for (i = 0; i < SUBSHELLS_MAX; i++)
		create(id[i]);
	reply = ask_control("create_subshell_request", json_object());
	CHECK_STR(json_string_value(json_object_get(reply, "status")), "error");
	json_decref(reply);
	for (i = 0; i < SUBSHELLS_MAX; i++)
		delete(id[i], "ok");
}

static void *client(void *arg)
{
	json_t *reply;

	(void)arg;
	test_main_only();
	test_comm_overtakes();
	test_subshells();
	test_many();
	reply = ask_control("usage_request", json_object());
	CHECK_INT(json_integer_value(json_object_get(reply, "pid")), getpid());
	json_decref(reply);
	json_decref(ask_control("shutdown_request", json_object()));
	return NULL;
}

int main(void)
{
	int saved = dup(1), saved_err = dup(2), linger = 0;
	struct connection conn = { .key_len = 0 };
	char why[400];
	pthread_t thread;
	int i;

	CHECK(mkdtemp(folder) != NULL);
	for (i = 0; i < CHANNELS; i++)
		snprintf(conn.address[i], sizeof(conn.address[i]), "ipc://%s/k-%d", folder, i);
	CHECK_INT(core_start(&core, &conn, &ops, NULL, why, sizeof(why)), 0);
	/* What a check says is for who runs the test. */
	dup2(saved, 1);
	dup2(saved_err, 2);
	ctx = zmq_ctx_new();
	connect_to(&shell, ZMQ_DEALER, CHANNEL_SHELL);
	connect_to(&control, ZMQ_DEALER, CHANNEL_CONTROL);
	connect_to(&iopub, ZMQ_SUB, CHANNEL_IOPUB);
	CHECK_INT(pthread_create(&thread, NULL, client, NULL), 0);
	core_run(&core);
	core_finish(&core);
	pthread_join(thread, NULL);
	for (i = 0; i < 3; i++) {
		void *sock = i == 0 ? shell : i == 1 ? control : iopub;

		zmq_setsockopt(sock, ZMQ_LINGER, &linger, sizeof(linger));
		zmq_close(sock);
	}
	zmq_ctx_term(ctx);
	rmdir(folder);
	return 0;
}
