/* UNIT: appliance appliance/core appliance/store vmm/host kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* The NDJSON writer: ASCII only, numbered, bounded, nothing cut inside a character. */
#include <errno.h>

#include "appliance/core/events.h"
#include "appliance/core/utf8_split.h"
#include "check.h"

static json_t *line_json(const char *line, size_t len)
{
	json_error_t error;
	json_t *json = json_loadb(line, len, JSON_ALLOW_NUL, &error);

	if (!json)
		fprintf(stderr, "%s in %.*s\n", error.text, (int)(len < 200 ? len : 200), line);
	CHECK(json != NULL);
	return json;
}

/* Checks every line and calls each; returns how many there were. */
static unsigned lines_each(const struct events *e, void (*each)(json_t *line, void *arg), void *arg)
{
	const char *at = e->lines.bytes, *end = at + e->lines.len;
	unsigned n = 0;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		json_t *json;
		const char *c;

		CHECK(newline != NULL);
		CHECK(newline - at <= XLOG_LINE_MAX);
		for (c = at; c < newline; c++)
			CHECK((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f);
		json = line_json(at, (size_t)(newline - at));
		CHECK_INT(json_integer_value(json_object_get(json, "seq")), ++n);
		if (each)
			each(json, arg);
		json_decref(json);
		at = newline + 1;
	}
	CHECK_INT(e->seq, n);
	CHECK_INT(e->bytes, e->lines.len);
	return n;
}

static void join(json_t *line, void *arg)
{
	json_t *text = json_object_get(line, "text");

	buf_add(arg, json_string_value(text), json_string_length(text));
}

static void text_survives(const char *unit, size_t times)
{
	struct events e = { 0 };
	struct buf all = { 0 }, back = { 0 };
	size_t i;

	for (i = 0; i < times; i++)
		buf_add_str(&all, unit);
	events_text(&e, "stdout", all.bytes, all.len);
	lines_each(&e, join, &back);
	CHECK_INT(back.len, all.len);
	CHECK(memcmp(back.bytes, all.bytes, all.len) == 0);
	events_free(&e);
	buf_free(&all);
	buf_free(&back);
}

static void controls(void)
{
	struct events e = { 0 };
	struct buf back = { 0 };
	char text[300 * 1024];

	/* The worst case: six bytes of JSON for each of text, NULs among them. */
	memset(text, 1, sizeof(text));
	text[7] = '\0';
	events_text(&e, "stderr", text, sizeof(text));
	CHECK_INT(lines_each(&e, join, &back), 3);
	CHECK_INT(back.len, sizeof(text));
	CHECK(memcmp(back.bytes, text, sizeof(text)) == 0);
	events_free(&e);
	buf_free(&back);
}

static void too_long(void)
{
	struct events e = { 0 };
	size_t len = 2 * XLOG_LINE_MAX;
	char *big = malloc(len);

	memset(big, 'x', len);
	events_add(&e, "started", NULL);
	CHECK_INT(events_add(&e, "display", json_pack("{s:s%}", "data", big, len)), -EMSGSIZE);
	events_add(&e, "end", NULL);
	CHECK_INT(lines_each(&e, NULL, NULL), 2);
	free(big);
	events_free(&e);
}

static void keep(json_t *line, void *arg)
{
	*(json_t **)arg = json_incref(line);
}

static void bundle_is_cut(void)
{
	struct events e = { 0 };
	size_t len = 2 * XLOG_LINE_MAX;
	char *big = malloc(len);
	json_t *data, *line = NULL;

	memset(big, 'x', len);
	data = json_pack("{s:s%,s:s}", "image/png", big, len, "text/plain", "<Figure>");
	events_bundle(&e, "display", data, json_pack("{s:s}", "display_id", "d"),
		      "/v1/executions/e/outputs/1/full");
	CHECK_INT(lines_each(&e, keep, &line), 1);
	CHECK_STR(json_string_value(json_object_get(json_object_get(line, "data"), "text/plain")),
		  "<Figure>");
	CHECK(!json_object_get(json_object_get(line, "data"), "image/png"));
	CHECK(json_is_true(json_object_get(line, "truncated")));
	CHECK_STR(json_string_value(json_array_get(json_object_get(line, "omitted"), 0)), "image/png");
	CHECK_STR(json_string_value(json_object_get(line, "full")), "/v1/executions/e/outputs/1/full");
	CHECK_STR(json_string_value(json_object_get(line, "display_id")), "d");
	json_decref(line);
	json_decref(data);
	free(big);
	events_free(&e);
}

static void error_is_cut(void)
{
	struct events e = { 0 };
	size_t len = 3 * XLOG_LINE_MAX;
	char *big = malloc(len);
	json_t *traceback, *line = NULL;

	memset(big, 2, len);
	traceback = json_pack("[s%,s]", big, len, "last");
	events_error(&e, "ValueError", big, len, traceback);
	CHECK_INT(lines_each(&e, keep, &line), 1);
	CHECK_STR(json_string_value(json_object_get(line, "name")), "ValueError");
	CHECK(json_string_length(json_object_get(line, "value")) == EVENT_ERROR_MAX);
	CHECK_INT(json_array_size(json_object_get(line, "traceback")), 2);
	json_decref(line);
	json_decref(traceback);
	free(big);
	events_free(&e);
}

static void utf8_pieces(void)
{
	CHECK_INT(utf8_valid("abc", 3), 3);
	CHECK_INT(utf8_valid("a\xe4\xb8\xad", 4), 4);
	CHECK_INT(utf8_valid("a\xe4\xb8", 3), 1);
	CHECK(utf8_may_continue("\xe4\xb8", 2));
	CHECK(!utf8_may_continue("\xff", 1));
	CHECK(!utf8_may_continue("\xed\xa0", 2)); /* a surrogate */
	CHECK(!utf8_may_continue("\xe0\x80", 2)); /* overlong */
	CHECK_INT(utf8_valid("\xf4\x90\x80\x80", 4), 0);
	CHECK_INT(utf8_valid("\xf0\x9f\x98\x80", 4), 4);
	CHECK(!utf8_may_continue("", 0));
}

int main(void)
{
	text_survives("x", 1);
	text_survives("plain \"quoted\" \\ line\n", 20000);
	text_survives("\xe4\xb8\xad\xe6\x96\x87", 50000);
	text_survives("\xf0\x9f\x98\x80", 100000);
	controls();
	too_long();
	bundle_is_cut();
	error_is_cut();
	utf8_pieces();
	return 0;
}
