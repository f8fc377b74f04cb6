/* UNIT: kernels/agent kernels/link LIBS: -lnghttp2 -luv -ljansson -lzmq -lcrypto */
/* Kernels behind a real agent: start both ways, channels, ends of every kind,
 * restart, interrupt, identity, cuts of the link. */
#include "agent_channel.h"
#include "agent_standin.h"

static struct client c;
static struct answer a;

/* What a kernel's channel brought that the tests look at. */
struct view {
	struct tap tap;
	char text[1024]; /* of streams */
	size_t streams;
	uint64_t stream_bytes;
	char reply[512];  /* content of the last shell reply */
	char large[512];  /* content of the last stream on stderr */
	char parent[512]; /* header of the last stream's request */
	bool in_order;
	bool replied, idle, state, asked;
	json_t *last_state;
};

static void on_stream(struct view *v, const char *content, size_t len)
{
	json_t *json = json_loadb(content, len, 0, NULL);
	const char *text = json_string_value(json_object_get(json, "text"));

	if (strcmp(json_string_value(json_object_get(json, "name")), "stderr") == 0)
		snprintf(v->large, sizeof(v->large), "%s", text);
	if (strlen(text) == 1024 && (size_t)atol(text) != v->streams)
		v->in_order = false;
	snprintf(v->text, sizeof(v->text), "%s", text);
	v->stream_bytes += strlen(text);
	v->streams++;
	json_decref(json);
}

static void on_each(struct tap *t, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len)
{
	struct view *v = t->arg;
	struct wire_message m;
	enum wire_channel ch;
	struct wire_part kind;

	(void)seq;
	if (type == 'S') {
		json_decref(v->last_state);
		v->last_state = json_loadb((const char *)payload, len, 0, NULL);
		v->state = true;
	}
	if (type != 'J')
		return;
	CHECK_INT(wire_decode(payload, len, &ch, &m), 0);
	kind = wire_field(m.part[WIRE_HEADER], "msg_type");
	if (wire_is(kind, "stream"))
		snprintf(v->parent, sizeof(v->parent), "%.*s", (int)m.part[WIRE_PARENT].len,
			 (const char *)m.part[WIRE_PARENT].bytes);
	if (wire_is(kind, "stream"))
		on_stream(v, (const char *)m.part[WIRE_CONTENT].bytes, m.part[WIRE_CONTENT].len);
	if (wire_is(kind, "input_request"))
		v->asked = ch == WIRE_STDIN;
	if (ch == WIRE_SHELL) {
		snprintf(v->reply, sizeof(v->reply), "%.*s",
			 (int)(m.part[WIRE_CONTENT].len > 500 ? 500 : m.part[WIRE_CONTENT].len),
			 (const char *)m.part[WIRE_CONTENT].bytes);
		v->replied = true;
	}
	if (wire_is(wire_field(m.part[WIRE_CONTENT], "execution_state"), "idle"))
		v->idle = true;
}

static void view_open(struct view *v, const char *path)
{
	*v = (struct view){ .in_order = true };
	tap_open(&v->tap, &c, path);
	v->tap.each = on_each;
	v->tap.arg = v;
}

static void view_close(struct view *v)
{
	tap_close(&v->tap);
	json_decref(v->last_state);
}

static void send_message(struct view *v, enum wire_channel ch, const char *type, json_t *content)
{
	static unsigned serial;
	struct wire_message m = { .n = WIRE_SIGNED };
	char header[256], *text = json_dumps(content, 0);
	uint8_t *payload;

	snprintf(header, sizeof(header),
		 "{\"msg_id\":\"m%u\",\"session\":\"host\",\"username\":\"u\",\"date\":\"\",\"msg_type\":\"%"
		 "s\","
		 "\"version\":\"5.3\"}",
		 ++serial, type);
	m.part[WIRE_HEADER] = wire_text(header);
	m.part[WIRE_PARENT] = m.part[WIRE_METADATA] = wire_text("{}");
	m.part[WIRE_CONTENT] = wire_text(text);
	payload = malloc(wire_size(&m));
	wire_encode(ch, &m, payload);
	CHECK(channel_send(v->tap.channel, 'J', true, payload, wire_size(&m)) > 0);
	free(payload);
	free(text);
	json_decref(content);
}

static void execute(struct view *v, const char *code)
{
	v->replied = v->idle = v->state = v->asked = false;
	v->streams = 0;
	v->stream_bytes = 0;
	v->in_order = true;
	send_message(v, WIRE_SHELL, "execute_request", json_pack("{s:s}", "code", code));
}

static void execute_whole(struct view *v, const char *code)
{
	execute(v, code);
	client_wait(&c, &v->replied);
	client_wait(&c, &v->idle);
}

static const char *state(const struct view *v, const char *name)
{
	const char *text = json_string_value(json_object_get(v->last_state, name));

	return text ? text : "";
}

static json_int_t state_number(const struct view *v, const char *name)
{
	return json_integer_value(json_object_get(v->last_state, name));
}

static void wait_state(struct view *v, const char *which)
{
	/* It may have come while another answer was waited for. */
	do {
		client_wait(&c, &v->state);
		v->state = false;
	} while (strcmp(state(v, "state"), which) != 0);
}

static void start(struct view *v, const char *id, const char *name)
{
	char body[256], path[128];

	snprintf(body, sizeof(body), "{\"id\":\"%s\",\"name\":\"%s\"}", id, name);
	ask(&c, &a, "POST", "/kernels", body);
	if (a.status != 201)
		fprintf(stderr, "%.*s\n", (int)a.len, (char *)a.body);
	CHECK_INT(a.status, 201);
	CHECK_INT(json_integer_value(json_object_get(a.json, "generation")), 1);
	ask(&c, &a, "POST", "/kernels", body);
	CHECK_INT(a.status, 409);
	snprintf(path, sizeof(path), "/kernels/%s/channel", id);
	view_open(v, path);
	wait_state(v, "alive");
	CHECK_INT(state_number(v, "generation"), 1);
}

static void talk(struct view *v)
{
	execute_whole(v, "print hello");
	CHECK_STR(v->text, "hello");
	CHECK_STR(v->reply, "{\"status\":\"ok\"}");
	execute(v, "input");
	client_wait(&c, &v->asked);
	send_message(v, WIRE_STDIN, "input_reply", json_pack("{s:s}", "value", "Ada"));
	client_wait(&c, &v->replied);
	client_wait(&c, &v->idle);
	CHECK_STR(v->text, "Ada");
	execute_whole(v, "flood 8000");
	CHECK(v->in_order);
	CHECK_INT(v->stream_bytes, 8000 * 1024);
}

static void too_large(struct view *v)
{
	execute_whole(v, "big 17000000");
	CHECK(strstr(v->large, "display_data"));
	execute_whole(v, "bigreply 17000000");
	CHECK(strstr(v->reply, "ReplyTooLarge"));
	execute_whole(v, "big 16000000");
	CHECK(!strstr(v->reply, "error"));
}

static void interrupt(struct view *v, const char *path)
{
	execute(v, "loop");
	ask(&c, &a, "GET", "/kernels", NULL);
	do
		ask(&c, &a, "POST", path, "");
	while (a.status == 204 && !v->replied);
	client_wait(&c, &v->replied);
	CHECK(strstr(v->reply, "KeyboardInterrupt"));
}

static void die(struct view *v, const char *code, json_int_t exit_code, const char *signal_wanted,
		const char *crash)
{
	json_int_t generation = state_number(v, "generation");
	uint64_t sent;

	execute(v, code);
	sent = channel_sent(v->tap.channel);
	wait_state(v, "dead");
	CHECK_INT(state_number(v, "generation"), generation);
	CHECK_STR(state(v, "signal"), signal_wanted);
	CHECK_INT(state_number(v, "exit_code"), exit_code);
	CHECK_STR(state(v, "crash"), crash);
	CHECK_INT(state_number(v, "received"), sent);
	CHECK(json_is_true(json_object_get(v->last_state, "restarting")));
	wait_state(v, "alive");
	CHECK_INT(state_number(v, "generation"), generation + 1);
	execute_whole(v, "print again");
	CHECK_STR(v->text, "again");
}

static void deaths(struct view *v)
{
	die(v, "exit 3", 3, "", "");
	CHECK_STR(v->text, "again");
	execute(v, "exit 4");
	wait_state(v, "dead");
	CHECK_STR(v->text, "last words");
	wait_state(v, "alive");
	die(v, "segv", 0, "SIGSEGV", "Fatal: it burns\n");
	die(v, "hold", 5, "", "");
}

/* What a kernel printed and had no time to read and send is not lost with it. */
static void last_words(struct view *v)
{
	execute(v, "gasp \303\251 before the end");
	wait_state(v, "dead");
	CHECK_STR(v->text, "\303\251 before the end");
	CHECK(strstr(v->parent, "execute_request"));
	wait_state(v, "alive");
}

static void restart(struct view *v, const char *path)
{
	json_int_t generation = state_number(v, "generation");

	v->state = false;
	ask(&c, &a, "POST", path, "");
	CHECK_INT(a.status, 200);
	CHECK_INT(json_integer_value(json_object_get(a.json, "generation")), generation + 1);
	while (strcmp(state(v, "state"), "alive") != 0 || state_number(v, "generation") != generation + 1)
		uv_run(&c.loop, UV_RUN_ONCE);
	execute(v, "loop");
	ask(&c, &a, "POST", path, "");
	CHECK_INT(a.status, 200);
	while (strcmp(state(v, "state"), "alive") != 0 || state_number(v, "generation") != generation + 2)
		uv_run(&c.loop, UV_RUN_ONCE);
	execute_whole(v, "print restarted");
	CHECK_STR(v->text, "restarted");
}

static void identity(struct view *v)
{
	char first[1024];

	execute_whole(v, "seed");
	snprintf(first, sizeof(first), "%s", v->text);
	client_identify(&c);
	execute_whole(v, "seed");
	CHECK(strcmp(first, v->text) != 0);
	/* A busy kernel is not waited for and takes it when its cell is over. */
	snprintf(first, sizeof(first), "%s", v->text);
	execute(v, "loop");
	do {
		ask(&c, &a, "GET", "/kernels", NULL);
	} while (!strstr((char *)a.body, "busy"));
	client_identify(&c);
	ask(&c, &a, "POST", "/kernels/r1/interrupt", "");
	CHECK_INT(a.status, 204);
	client_wait(&c, &v->replied);
	client_wait(&c, &v->idle);
	execute_whole(v, "seed");
	CHECK(strcmp(first, v->text) != 0);
}

/* 64 KiB frames of output across cuts: each line once, in order. */
static void cut(struct view *v, const char *path)
{
	int i;

	execute(v, "flood 8000");
	for (i = 0; i < 5; i++) {
		tap_wait(&v->tap, 'J');
		client_disconnect(&c);
		client_connect(&c);
		tap_attach(&v->tap, path);
	}
	client_wait(&c, &v->replied);
	client_wait(&c, &v->idle);
	CHECK(v->in_order);
	CHECK_INT(v->stream_bytes + v->tap.gap_bytes, 8000 * 1024);
}

static void killed_parent(struct view *v)
{
	char command[128];

	/* The parent is the stand-in that was not forked by itself. */
	snprintf(command, sizeof(command), "pkill -KILL -P %d -f -- --parent", (int)c.agent);
	CHECK_INT(system(command), 0);
	execute_whole(v, "print orphan");
	CHECK_STR(v->text, "orphan");
	die(v, "exit 9", 9, "", "");
}

static void no_such_kernel(void)
{
	ask(&c, &a, "POST", "/kernels", "{\"id\":\"x\",\"name\":\"cobol\"}");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "POST", "/kernels", "{\"id\":\"x\"}");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "POST", "/kernels", "{\"id\":\"x\",\"name\":\"plain\",\"cwd\":\"/nowhere\"}");
	CHECK_INT(a.status, 500);
	ask(&c, &a, "DELETE", "/kernels/x", NULL);
	CHECK_INT(a.status, 404);
}

static void kernel_of(const char *id, const char *name, bool prepared)
{
	char path[3][128];
	struct view v;

	snprintf(path[0], sizeof(path[0]), "/kernels/%s/interrupt", id);
	snprintf(path[1], sizeof(path[1]), "/kernels/%s/restart", id);
	snprintf(path[2], sizeof(path[2]), "/kernels/%s", id);
	start(&v, id, name);
	talk(&v);
	too_large(&v);
	interrupt(&v, path[0]);
	deaths(&v);
	restart(&v, path[1]);
	if (prepared) {
		last_words(&v);
		identity(&v);
		killed_parent(&v);
	}
	snprintf(path[0], sizeof(path[0]), "/kernels/%s/channel", id);
	cut(&v, path[0]);
	ask(&c, &a, "DELETE", path[2], NULL);
	CHECK_INT(a.status, 204);
	ask(&c, &a, "DELETE", path[2], NULL);
	CHECK_INT(a.status, 404);
	view_close(&v);
}

int main(int argc, char **argv)
{
	char specs[] = "/tmp/carrel-specs-XXXXXX", command[64];

	standin_main(argc, argv);
	CHECK(mkdtemp(specs) != NULL);
	chmod(specs, 0755);
	standin_specs(specs);
	client_start(&c, specs);
	client_identify(&c);
	no_such_kernel();
	kernel_of("p1", "plain", false);
	kernel_of("r1", "ready", true);
	answer_clear(&a);
	client_stop(&c);
	snprintf(command, sizeof(command), "rm -rf %s", specs);
	return system(command);
}
