/* A kernel's channel as tests of the agent look at it: what it said last. */
#ifndef CARREL_TESTS_AGENT_VIEW_H
#define CARREL_TESTS_AGENT_VIEW_H

#include "agent_channel.h"
#include "kernels/agent/wire.h"

static struct client c;
static struct answer a;

/* What a kernel's channel brought that the tests look at. */
struct view {
	struct tap tap;
	char text[1024]; /* of the last stream */
	char said[1024]; /* of all streams since execute() */
	size_t streams;
	uint64_t stream_bytes;
	char reply[512];  /* content of the last shell reply */
	char large[512];  /* content of the last stream on stderr */
	char parent[512]; /* header of the last stream's request */
	bool in_order, shown; /* shown: a display */
	bool replied, idle, asked, news; /* news: a stream */
	json_t *states,
		*last_state; /* those that nobody waited for yet, and the one that was waited for last */
	bool state;          /* there are some */
};

static inline void on_stream(struct view *v, const char *content, size_t len)
{
	json_t *json = json_loadb(content, len, 0, NULL);
	const char *text = json_string_value(json_object_get(json, "text"));

	if (strcmp(json_string_value(json_object_get(json, "name")), "stderr") == 0)
		snprintf(v->large, sizeof(v->large), "%s", text);
	if (strlen(text) == 1024 && (size_t)atol(text) != v->streams)
		v->in_order = false;
	snprintf(v->text, sizeof(v->text), "%s", text);
	snprintf(v->said + strlen(v->said), sizeof(v->said) - strlen(v->said), "%s", text);
	v->stream_bytes += strlen(text);
	v->streams++;
	v->news = true;
	json_decref(json);
}

static inline void on_each(struct tap *t, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len)
{
	struct view *v = t->arg;
	struct wire_message m;
	enum wire_channel ch;
	struct wire_part kind;

	(void)seq;
	if (type == 'S') {
		CHECK_INT(json_array_append_new(v->states, json_loadb((const char *)payload, len, 0, NULL)),
			  0);
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
	if (wire_is(kind, "display_data"))
		v->shown = true;
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

static inline void view_open(struct view *v, const char *path)
{
	*v = (struct view){ .in_order = true, .states = json_array() };
	tap_open(&v->tap, &c, path);
	v->tap.each = on_each;
	v->tap.arg = v;
}

static inline void view_close(struct view *v)
{
	tap_close(&v->tap);
	json_decref(v->states);
	json_decref(v->last_state);
}

static inline void send_message(struct view *v, enum wire_channel ch, const char *type, json_t *content)
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

static inline void execute(struct view *v, const char *code)
{
	v->replied = v->idle = v->asked = false;
	v->streams = 0;
	v->stream_bytes = 0;
	v->said[0] = '\0';
	v->in_order = true;
	send_message(v, WIRE_SHELL, "execute_request", json_pack("{s:s, s:b}", "code", code, "silent", 0));
}

static inline void execute_whole(struct view *v, const char *code)
{
	execute(v, code);
	client_wait(&c, &v->replied);
	client_wait(&c, &v->idle);
}

static inline const char *state(const struct view *v, const char *name)
{
	const char *text = json_string_value(json_object_get(v->last_state, name));

	return text ? text : "";
}

static inline json_int_t state_number(const struct view *v, const char *name)
{
	return json_integer_value(json_object_get(v->last_state, name));
}

static inline void wait_stream(struct view *v)
{
	v->news = false;
	client_wait(&c, &v->news);
}

/* The next one that is so; two may have come at once. */
static inline void wait_state(struct view *v, const char *which)
{
	do {
		client_wait(&c, &v->state);
		json_decref(v->last_state);
		v->last_state = json_incref(json_array_get(v->states, 0));
		json_array_remove(v->states, 0);
		v->state = json_array_size(v->states) > 0;
	} while (strcmp(state(v, "state"), which) != 0);
}

/* Its process number so-and-so is there. */
static inline void wait_generation(struct view *v, json_int_t generation)
{
	do
		wait_state(v, "alive");
	while (state_number(v, "generation") != generation);
}

static inline void start(struct view *v, const char *id, const char *name)
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

#endif
