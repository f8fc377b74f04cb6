/* UNIT: kernels/core LIBS: -lzmq -ljansson -lcrypto */
/* What a kernel publishes: few messages, whole, in order, none dropped, and the
 * maker of output held when nobody reads. */
#include <errno.h>
#include <stdbool.h>
#include <unistd.h>
#include <sys/wait.h>
#include <zmq.h>

#include "core/capture.h"
#include "core/iopub.h"
#include "core/sock.h"
#include "tests/unit/check.h"

static void *ctx;
static void *sub;
static struct iopub io;
static struct capture capture;
static struct session session;
static struct wire_signer check_signer;
static struct unsent *unsent;
static uint64_t received; /* what the last topic told */
static int real_stdout, real_stderr;

static struct frames *last;
static struct wire_view view;

static void note_topic(struct slice topic)
{
	char text[128];
	const char *at;

	snprintf(text, sizeof(text), "%.*s", (int)topic.len, (const char *)topic.data);
	at = strchr(text, '@');
	if (at)
		received = strtoull(at + 1, NULL, 10);
}

/* The next message, parsed and with a right signature; its type. */
static const char *next_type(void)
{
	static char type[64];
	zmq_pollitem_t item = { .socket = sub, .events = ZMQ_POLLIN };
	json_t *header;

	CHECK_INT(zmq_poll(&item, 1, 10000), 1);
	frames_free(last);
	CHECK_INT(sock_recv(sub, last), 0);
	note_topic(last->slice[0]);
	CHECK_INT(wire_parse(&check_signer, last->slice, last->n, &view), 0);
	header = json_loadb(view.part[WIRE_HEADER].data, view.part[WIRE_HEADER].len, 0, NULL);
	CHECK(header != NULL);
	snprintf(type, sizeof(type), "%s", json_string_value(json_object_get(header, "msg_type")));
	json_decref(header);
	return type;
}

static char *next_text(const char *stream)
{
	json_t *content;
	char *text;

	CHECK_STR(next_type(), "stream");
	content = json_loadb(view.part[WIRE_CONTENT].data, view.part[WIRE_CONTENT].len, 0, NULL);
	CHECK_STR(json_string_value(json_object_get(content, "name")), stream);
	text = strdup(json_string_value(json_object_get(content, "text")));
	json_decref(content);
	return text;
}

static void expect_text(const char *stream, const char *want)
{
	char *text = next_text(stream);

	CHECK_STR(text, want);
	free(text);
}

static void expect_status(const char *state)
{
	char want[80];

	CHECK_STR(next_type(), "status");
	snprintf(want, sizeof(want), "{\"execution_state\":\"%s\"}", state);
	CHECK(view.part[WIRE_CONTENT].len == strlen(want) &&
	      !memcmp(view.part[WIRE_CONTENT].data, want, strlen(want)));
}

static void set_up(void)
{
	struct wire_signer s;
	void *sock;
	int one = 1;

	real_stdout = dup(1);
	real_stderr = dup(2);
	ctx = zmq_ctx_new();
	sock = sock_bind(ctx, ZMQ_XPUB, "inproc://iopub");
	CHECK(sock != NULL);
	sub = zmq_socket(ctx, ZMQ_SUB);
	zmq_setsockopt(sub, ZMQ_RCVHWM, &one, sizeof(one));
	zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "", 0);
	CHECK_INT(zmq_connect(sub, "inproc://iopub"), 0);
	CHECK_INT(session_init(&session), 0);
	CHECK_INT(wire_signer_init(&s, "k", 1), 0);
	CHECK_INT(wire_signer_init(&check_signer, "k", 1), 0);
	last = calloc(1, sizeof(*last));
	unsent = unsent_new();
	CHECK(unsent != NULL);
	CHECK_INT(capture_open(&capture, &io, unsent->line), 0);
	/* Failures of the test itself must still be seen. */
	dup2(real_stderr, 2);
	CHECK_INT(iopub_start(&io, sock, &session, &capture, unsent, &s), 0);
	CHECK_STR(next_type(), "iopub_welcome");
}

static void tear_down(void)
{
	iopub_stop(&io, 5000);
	CHECK(!io.started);
	dup2(real_stdout, 1);
	capture_close(&capture);
	frames_free(last);
	free(last);
	wire_signer_free(&check_signer);
	zmq_close(sub);
	zmq_ctx_term(ctx);
	close(real_stdout);
	close(real_stderr);
}

static void put(const char *text)
{
	CHECK_INT(write(1, text, strlen(text)), (long long)strlen(text));
}

static void test_order(void)
{
	struct parent *a = parent_new("{\"id\":\"a\"}", 10), *b = parent_new("{\"id\":\"b\"}", 10);

	capture_set_parent(&capture, a, false);
	iopub_put_status(&io, "busy", a, true);
	put("one\n");
	CHECK(!capture_hold(&capture, 0, "two\n", 4));
	put("two\n");
	CHECK(capture_hold(&capture, 0, "thr", 3));
	CHECK(capture_hold(&capture, 0, "ee", 2));
	capture_drain(&capture);
	iopub_put_status(&io, "idle", a, false);
	expect_status("busy");
	expect_text("stdout", "one\ntwo\nthree");
	CHECK(view.part[WIRE_PARENT].len == 10 && !memcmp(view.part[WIRE_PARENT].data, "{\"id\":\"a\"}", 10));
	expect_status("idle");
	/* A character cut by the end of a cell ends there. */
	put("\xe4\xbd");
	capture_set_parent(&capture, b, false);
	put("\xa0"
	    "b\n");
	capture_drain(&capture);
	expect_text("stdout", "\xef\xbf\xbd");
	expect_text("stdout", "\xef\xbf\xbd"
			      "b\n");
	CHECK(!memcmp(view.part[WIRE_PARENT].data, "{\"id\":\"b\"}", 10));
	/* Nobody drains: the thread does. */
	put("alone\n");
	expect_text("stdout", "alone\n");
	CHECK(capture_hold(&capture, 0, ".", 1));
	expect_text("stdout", ".");
	/* Silent. */
	capture_set_parent(&capture, b, true);
	put("nothing\n");
	capture_set_parent(&capture, b, false);
	iopub_put_status(&io, "idle", b, false);
	expect_status("idle");
	parent_unref(a);
	parent_unref(b);
}

/* What was not received stands in memory, behind the count that the last topic told. */
static void test_unsent(void)
{
	char *big = calloc(1, UNSENT_RECORD_MAX + 1);
	uint64_t at;
	int i, status;
	pid_t pid;

	CHECK_INT(iopub_put_text(&io, 1, NULL, "said\n", 5), 0);
	expect_text("stderr", "said\n");
	at = atomic_load(&unsent->put);
	CHECK_INT(received, at);
	CHECK(!memcmp(unsent->ring + at - 16, "\13\0\0\0\1\2\0\0\0{}said\n", 16));
	/* Without iopub's thread no text leaves. */
	pthread_mutex_lock(&io.sock_lock);
	CHECK_INT(iopub_put_text(&io, 0, NULL, "kept", 4), 0);
	CHECK_INT(iopub_put(&io, "display_data", NULL, strdup("{}"), 2, NULL, NULL, 0), 0);
	CHECK(!memcmp(unsent->ring + at, "\12\0\0\0\0\2\0\0\0{}kept", 15));
	CHECK(!memcmp(unsent->ring + at + 15, "\47\0\0\0\2\3\4\0\0\0\14\0\0\0display_data\2\0\0\0{}", 32));
	CHECK_INT(atomic_load(&unsent->put), at + 15 + UNSENT_HEAD + 0x27);
	/* What does not fit stands without its payload. */
	memset(big, ' ', UNSENT_RECORD_MAX);
	CHECK_INT(iopub_put(&io, "display_data", NULL, big, UNSENT_RECORD_MAX, NULL, NULL, 0), 0);
	CHECK_INT(atomic_load(&unsent->put), at + 15 + 2 * UNSENT_HEAD + 0x27);
	pthread_mutex_unlock(&io.sock_lock);
	expect_text("stdout", "kept");
	CHECK_INT(received, at + 15);
	for (i = 0; i < 2; i++)
		CHECK_STR(next_type(), "display_data");
	CHECK_INT(received, atomic_load(&unsent->put));
	/* The beginning of a line is there, too; a forked child's is its own. */
	CHECK(capture_hold(&capture, 0, "fir", 3));
	capture_fork_prepare(&capture);
	pid = fork();
	if (pid == 0) {
		at = unsent->line[0].n;
		capture_fork_child(&capture);
		_exit(capture_hold(&capture, 0, "child", 5) && unsent->line[0].n == at ? 0 : 1);
	}
	capture_fork_parent(&capture);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
	expect_text("stdout", "fir");
	CHECK_INT(unsent->line[0].n, 0);
}

/* Many small writes are few messages; a long text is cut into bounded ones. */
static void test_sizes(void)
{
	static char line[IOPUB_TEXT_MAX];
	size_t total = 0, messages = 0, i, n;
	char *text;

	/* One drain for all: the reader must not come between. */
	memset(line, 'y', sizeof(line));
	for (i = 0; i < 100; i++)
		CHECK_INT(iopub_put_text(&io, 1, NULL, line, 10), 0);
	while (total < 1000) {
		text = next_text("stderr");
		total += strlen(text);
		messages++;
		free(text);
	}
	CHECK_INT(total, 1000);
	CHECK(messages <= 50);
	for (i = 0; i < 6; i++)
		CHECK_INT(iopub_put_text(&io, 1, NULL, line, IOPUB_TEXT_MAX / 2 + 1), 0);
	for (total = 0; total < 6 * (IOPUB_TEXT_MAX / 2 + 1); total += n) {
		text = next_text("stderr");
		n = strlen(text);
		CHECK(n <= IOPUB_TEXT_MAX);
		free(text);
	}
	CHECK_INT(total, 6 * (IOPUB_TEXT_MAX / 2 + 1));
}

/* Nobody reads: memory is bounded, status passes, and all comes in the end. */
static void test_pressure(void)
{
	static char line[IOPUB_TEXT_MAX];
	size_t sent = 0, got = 0;
	char *text;

	memset(line, 'z', sizeof(line));
	while (iopub_wait_room(&io, 20) == 0) {
		CHECK_INT(iopub_put_text(&io, 0, NULL, line, sizeof(line)), 0);
		sent += sizeof(line);
		CHECK(sent < 4 * (size_t)IOPUB_QUEUE_MAX);
	}
	CHECK_INT(iopub_wait_room(&io, 1), -ETIMEDOUT);
	CHECK_INT(iopub_wait_empty(&io, 1), -ETIMEDOUT);
	iopub_put_status(&io, "idle", NULL, false);
	while (got < sent) {
		text = next_text("stdout");
		got += strlen(text);
		free(text);
	}
	expect_status("idle");
	CHECK_INT(iopub_wait_empty(&io, 5000), 0);
}

/* The end of a cell takes all along that was held before it, and waits for nobody. */
static void test_end(void)
{
	static char line[IOPUB_TEXT_MAX];
	int cells = 4 * SOCK_XPUB_HWM, i;
	char *text;

	iopub_put_status(&io, "busy", NULL, true);
	iopub_put_json(&io, "execute_input", NULL, json_object(), NULL);
	CHECK_INT(iopub_put_idle(&io, NULL), 0);
	CHECK_INT(iopub_wait_empty(&io, 0), 0);
	expect_status("busy");
	CHECK_STR(next_type(), "execute_input");
	expect_status("idle");
	/* More than a subscriber has room for, text at the border. */
	memset(line, 'w', sizeof(line));
	for (i = 0; i < cells; i++) {
		iopub_put_status(&io, "busy", NULL, true);
		CHECK_INT(iopub_put_text(&io, 0, NULL, line, sizeof(line)), 0);
		CHECK_INT(iopub_put_idle(&io, NULL), 0);
	}
	for (i = 0; i < cells; i++) {
		expect_status("busy");
		text = next_text("stdout");
		CHECK_INT(strlen(text), IOPUB_TEXT_MAX);
		free(text);
		expect_status("idle");
	}
}

/* A subscription that comes while cells end is greeted. */
static void test_subscriptions(void)
{
	int i, got;

	for (i = 0; i < 200; i++) {
		CHECK_INT(zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "extra", 5), 0);
		CHECK_INT(iopub_put_idle(&io, NULL), 0);
		for (got = 0; got < 2; got++)
			next_type();
		zmq_setsockopt(sub, ZMQ_UNSUBSCRIBE, "extra", 5);
	}
}

int main(void)
{
	set_up();
	test_order();
	test_unsent();
	test_end();
	test_subscriptions();
	test_sizes();
	test_pressure();
	tear_down();
	return 0;
}
