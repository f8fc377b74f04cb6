/* UNIT: appliance appliance/core appliance/store vmm/host kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* Messages from a hostile guest: what is not the protocol is told apart and never trusted. */
#include <errno.h>

#include "appliance/core/jupyter.h"
#include "appliance/core/cell_env.h"
#include "check.h"

static void u32(struct buf *b, size_t n)
{
	unsigned char raw[4] = { n & 255, (n >> 8) & 255, (n >> 16) & 255, (n >> 24) & 255 };

	buf_add(b, raw, 4);
}

static void part(struct buf *b, const char *text, size_t len)
{
	u32(b, len);
	buf_add(b, text, len);
}

static struct buf message(int channel, const char *header, const char *parent, const char *content,
			  size_t len)
{
	struct buf b = { 0 };
	char number = (char)channel;

	buf_add(&b, &number, 1);
	u32(&b, 4);
	part(&b, header, strlen(header));
	part(&b, parent, strlen(parent));
	part(&b, "{}", 2);
	part(&b, content, len);
	return b;
}

static int parse(int channel, const char *type, const char *content, struct jupyter_msg *m)
{
	char header[128];
	struct buf b;
	int err;

	snprintf(header, sizeof(header), "{\"msg_type\":\"%s\"}", type);
	b = message(channel, header, "{\"msg_id\":\"exe-1\"}", content, strlen(content));
	err = jupyter_parse((const uint8_t *)b.bytes, b.len, m);
	buf_free(&b);
	return err;
}

static void refused(int channel, const char *type, const char *content)
{
	struct jupyter_msg m;

	CHECK_INT(parse(channel, type, content, &m), -EBADMSG);
}

/* A stream's text by whichever way is what the library reads. quick: the way of plain text. */
static void stream_as_the_library(const char *content, bool quick)
{
	json_t *json = json_loads(content, JSON_ALLOW_NUL, NULL), *text = json_object_get(json, "text");
	struct jupyter_msg m;
	int err = parse(3, "stream", content, &m);

	CHECK_INT(err, json_is_string(text) && json_is_string(json_object_get(json, "name")) ? 0 : -EBADMSG);
	if (!err) {
		CHECK((m.stream != NULL) == quick);
		CHECK_INT(m.len, json_string_length(text));
		CHECK(memcmp(m.text, json_string_value(text), m.len + 1) == 0);
		CHECK_INT(m.is_stderr, strcmp(json_string_value(json_object_get(json, "name")), "stderr") == 0);
		jupyter_msg_free(&m);
	}
	json_decref(json);
}

static void streams(void)
{
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"plain\"}", true);
	stream_as_the_library("{\"name\": \"stderr\", \"text\": \"as ipykernel writes it\"}", true);
	stream_as_the_library(" { \"name\" : \"stderr\" , \"text\" : \"\" } ", true);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"\\n\\t\\r\\b\\f\\\\\\\"\\/\"}", true);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"\xe4\xb8\xad \xf0\x9f\x98\x80 \x7f\"}", true);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"\\u0000 \\u001b[1m \\ud83d\\ude00\"}", false);
	stream_as_the_library("{\"text\":\"in another order\",\"name\":\"stdout\"}", false);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"first\",\"text\":\"second\"}", false);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"x\",\"more\":[1]}", false);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"a line\n\"}", false);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"\\x\"}", false);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"\xed\xa0\x80\"}", false);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"no end", false);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"no end\\", false);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":\"x\"} behind", false);
	stream_as_the_library("{\"name\":\"stdout\",\"text\":7}", false);
	stream_as_the_library("{\"name\"", false);
	stream_as_the_library("", false);
}

static void good(void)
{
	struct jupyter_msg m;

	CHECK_INT(parse(3, "stream", "{\"name\":\"stdout\",\"text\":\"a\\u0000b\"}", &m), 0);
	CHECK_INT(m.type, JUPYTER_STREAM);
	CHECK_STR(m.parent_id, "exe-1");
	CHECK_INT(m.len, 3);
	CHECK(!m.is_stderr);
	jupyter_msg_free(&m);
	CHECK_INT(parse(3, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"a\",\"b\"]}", &m), 0);
	CHECK_STR(m.name, "E");
	CHECK_INT(json_array_size(m.traceback), 2);
	jupyter_msg_free(&m);
	CHECK_INT(parse(0, "execute_reply", "{\"status\":\"ok\",\"execution_count\":3}", &m), 0);
	CHECK_INT(m.execution_count, 3);
	jupyter_msg_free(&m);
	CHECK_INT(parse(3, "display_data",
			"{\"data\":{\"text/plain\":\"x\",\"no mime\":1,\"a/b/c\":2,\"image/png\":null},"
			"\"transient\":{\"display_id\":\"d\"}}",
			&m),
		  0);
	CHECK_INT(json_object_size(m.data), 1);
	CHECK_STR(m.name, "d");
	jupyter_msg_free(&m);
	/* Of no interest: not even parsed. */
	CHECK_INT(parse(3, "comm_msg", "{{{ not json", &m), 0);
	CHECK_INT(m.type, JUPYTER_OTHER);
	jupyter_msg_free(&m);
	/* A type on a channel where it does not belong is none. */
	CHECK_INT(parse(0, "stream", "{\"name\":\"stdout\",\"text\":\"x\"}", &m), 0);
	CHECK_INT(m.type, JUPYTER_OTHER);
	jupyter_msg_free(&m);
}

static void wrong_types(void)
{
	refused(3, "stream", "{\"name\":1,\"text\":\"x\"}");
	refused(3, "stream", "{\"name\":\"stdout\",\"text\":[]}");
	refused(3, "stream", "[]");
	refused(3, "stream", "");
	refused(3, "stream", "{\"name\":\"stdout\",\"text\":\"\\ud800\"}");
	refused(3, "stream", "{\"name\":\"stdout\",\"text\":\"\xff\"}");
	refused(3, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":\"x\"}");
	refused(3, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[1]}");
	refused(3, "execute_result", "{\"data\":[1]}");
	refused(3, "status", "{}");
	refused(0, "execute_reply", "{\"status\":7}");
}

static void wrong_headers(void)
{
	struct jupyter_msg m;
	struct buf b = message(3, "[]", "{}", "{}", 2);

	CHECK_INT(jupyter_parse((const uint8_t *)b.bytes, b.len, &m), -EBADMSG);
	buf_free(&b);
	b = message(3, "{\"msg_type\":5}", "{}", "{}", 2);
	CHECK_INT(jupyter_parse((const uint8_t *)b.bytes, b.len, &m), -EBADMSG);
	buf_free(&b);
	/* An id that cannot be ours is no id. */
	b = message(3, "{\"msg_type\":\"status\"}",
		    "{\"msg_id\":\"0123456789012345678901234567890123456789012345678901234567890123456789"
		    "0123456789012345678901234567890123456789012345678901234567890123456789\"}",
		    "{\"execution_state\":\"idle\"}", 26);
	CHECK_INT(jupyter_parse((const uint8_t *)b.bytes, b.len, &m), 0);
	CHECK_STR(m.parent_id, "");
	jupyter_msg_free(&m);
	buf_free(&b);
}

static void layout(void)
{
	struct jupyter_msg m;
	struct buf b = message(3, "{\"msg_type\":\"status\"}", "{}", "{\"execution_state\":\"idle\"}", 26);
	size_t i;

	for (i = 0; i < b.len; i++)
		CHECK_INT(jupyter_parse((const uint8_t *)b.bytes, i, &m), -EPROTO);
	b.bytes[0] = 4;
	CHECK_INT(jupyter_parse((const uint8_t *)b.bytes, b.len, &m), -EPROTO);
	b.bytes[0] = 3;
	b.bytes[1] = 3;
	CHECK_INT(jupyter_parse((const uint8_t *)b.bytes, b.len, &m), -EPROTO);
	b.bytes[1] = b.bytes[2] = (char)255;
	CHECK_INT(jupyter_parse((const uint8_t *)b.bytes, b.len, &m), -EPROTO);
	b.bytes[1] = 4;
	b.bytes[2] = 0;
	b.bytes[8] = (char)255;
	CHECK_INT(jupyter_parse((const uint8_t *)b.bytes, b.len, &m), -EPROTO);
	buf_free(&b);
}

/* A few megabytes that would become a gigabyte of JSON values, or a deep stack. */
static void bombs(void)
{
	size_t len = 4 * 1024 * 1024, i;
	char *text = malloc(len + 1);

	text[0] = '[';
	for (i = 1; i + 3 < len; i += 3)
		memcpy(text + i, "[],", 3);
	memcpy(text + i, "[]]", 4);
	CHECK(!json_parse_bounded(text, i + 3, JUPYTER_VALUES_MAX, JUPYTER_DEPTH_MAX));
	memset(text, '[', len);
	CHECK(!json_parse_bounded(text, len, JUPYTER_VALUES_MAX, JUPYTER_DEPTH_MAX));
	/* Brackets inside a string are text. */
	memset(text, '[', len);
	text[0] = '"';
	text[len - 1] = '"';
	text[5] = '\\';
	text[6] = '"';
	CHECK(!json_parse_bounded(text, len, 4, 2)); /* a bare string is no document */
	free(text);
}

static void request(void)
{
	struct buf b = { 0 };
	struct jupyter_msg m;
	json_t *content = jupyter_execute_content("print(1)", false);
	json_t *env = json_pack("{s:s}", "A", "it's \"quoted\" \\ \n"), *set = cell_env_set(env, "python");

	CHECK(!json_is_true(json_object_get(content, "allow_stdin")));
	CHECK(json_is_true(json_object_get(content, "store_history")));
	jupyter_request(&b, JUPYTER_SHELL, "exe-1", "session", "execute_request", content);
	CHECK(!b.failed);
	CHECK_INT(jupyter_parse((const uint8_t *)b.bytes, b.len, &m), 0);
	CHECK_INT(m.type, JUPYTER_OTHER);
	jupyter_msg_free(&m);
	CHECK(!strchr(json_string_value(json_object_get(set, "code")), '\n'));
	CHECK(json_is_true(json_object_get(set, "silent")));
	json_decref(set);
	json_object_set_new(env, "not a name", json_string("1"));
	set = cell_env_set(env, "bash");
	CHECK(strstr(json_string_value(json_object_get(set, "code")),
		     "\nexport A='it'\\''s \"quoted\" \\ \n'\n"));
	CHECK(!strstr(json_string_value(json_object_get(set, "code")), "not a name"));
	json_decref(content);
	json_decref(env);
	json_decref(set);
	buf_free(&b);
}

int main(void)
{
	streams();
	good();
	wrong_types();
	wrong_headers();
	layout();
	bombs();
	request();
	return 0;
}
