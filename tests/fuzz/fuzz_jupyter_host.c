/* FUZZ: appliance/core/jupyter.c appliance/core/json_bound.c appliance/core/buf.c appliance/core/events.c appliance/core/json_text.c appliance/core/times.c appliance/core/utf8_split.c appliance/store/clip.c appliance/store/ids.c LIBS: -ljansson -lcrypto */
/* What a hostile agent or kernel may send up a channel, to the host's parser and
 * from there to events. The first byte chooses: a payload as it stands, or the
 * rest as the content of a well-formed message of some type. Every line that
 * comes out is one ASCII JSON object within its bound; a stream's text is what
 * the JSON library reads, on the way in and on the way out. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "appliance/core/events.h"
#include "appliance/core/jupyter.h"
#include "appliance/core/utf8_split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const types[] = { "status",       "execute_input",       "stream",
				     "display_data", "update_display_data", "error",
				     "clear_output", "execute_reply",       "execute_result",
				     "inspect_reply" };

static void part(struct buf *b, const void *bytes, size_t len)
{
	unsigned char raw[4] = { len & 255, (len >> 8) & 255, (len >> 16) & 255, (len >> 24) & 255 };

	buf_add(b, raw, 4);
	buf_add(b, bytes, len);
}

static void message(struct buf *b, unsigned choice, const uint8_t *content, size_t len)
{
	const char *type = types[choice % (sizeof(types) / sizeof(types[0]))];
	char channel = strstr(type, "_reply") ? 0 : 3, header[64];

	snprintf(header, sizeof(header), "{\"msg_type\":\"%s\"}", type);
	buf_add(b, &channel, 1);
	buf_add(b, "\4\0\0\0", 4);
	part(b, header, strlen(header));
	part(b, "{\"msg_id\":\"exe-1\"}", 18);
	part(b, "{}", 2);
	part(b, content, len);
}

static void emit(struct events *e, const struct jupyter_msg *m)
{
	switch (m->type) {
	case JUPYTER_STREAM:
		events_text(e, m->is_stderr ? "stderr" : "stdout", m->text, m->len);
		break;
	case JUPYTER_DISPLAY:
	case JUPYTER_UPDATE_DISPLAY:
	case JUPYTER_RESULT:
		events_bundle(e, "display", m->data, json_pack("{s:s}", "display_id", m->name), "/v1/full");
		break;
	case JUPYTER_ERROR:
		events_error(e, m->name, m->text, m->len, m->traceback);
		break;
	default:
		break;
	}
}

/* content: of a stream. */
static void check_text(const struct jupyter_msg *m, const uint8_t *content, size_t len)
{
	json_t *json = json_loadb((const char *)content, len, JSON_ALLOW_NUL, NULL), *text = json_object_get(json, "text");

	if (!json_is_string(text) || json_string_length(text) != m->len ||
	    memcmp(json_string_value(text), m->text, m->len) != 0)
		abort();
	json_decref(json);
}

/* The lines' text, one after another, is what they were made of. */
static void check_told(const struct events *e, const struct jupyter_msg *m)
{
	const char *at = e->lines.bytes, *end = at + e->lines.len;
	size_t told = 0;

	while (at < end) {
		const char *next = memchr(at, '\n', (size_t)(end - at));
		json_t *json = json_loadb(at, (size_t)(next - at), JSON_ALLOW_NUL, NULL), *text = json_object_get(json, "text");
		size_t len = json_string_length(text);

		if (len > m->len - told || memcmp(json_string_value(text), m->text + told, len) != 0)
			abort();
		told += len;
		at = next + 1;
		json_decref(json);
	}
	if (told != m->len)
		abort();
}

static void check_lines(const struct events *e)
{
	const char *at = e->lines.bytes, *end, *c;
	uint64_t n = 0;

	if (!at)
		return;
	for (end = at + e->lines.len; at < end; at = c + 1) {
		json_t *json;

		c = memchr(at, '\n', (size_t)(end - at));
		if (!c || c - at > XLOG_LINE_MAX)
			abort();
		json = json_loadb(at, (size_t)(c - at), JSON_ALLOW_NUL, NULL);
		if (!json_is_object(json) ||
		    (uint64_t)json_integer_value(json_object_get(json, "seq")) != ++n)
			abort();
		json_decref(json);
	}
	for (at = e->lines.bytes; at < end; at++) {
		if ((unsigned char)*at > 0x7f)
			abort();
	}
	if (n != e->seq)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = { 0 };
	struct events e = { 0 };
	struct jupyter_msg m;
	size_t valid;

	if (size == 0)
		return 0;
	valid = utf8_valid((const char *)data, size);
	if (valid < size)
		utf8_may_continue((const char *)data + valid, size - valid > 3 ? 3 : size - valid);
	if (data[0] & 0x80)
		buf_add(&b, data + 1, size - 1);
	else
		message(&b, data[0], data + 1, size - 1);
	if (jupyter_parse((const uint8_t *)b.bytes, b.len, &m) == 0) {
		emit(&e, &m);
		check_lines(&e);
		if (m.type == JUPYTER_STREAM && !(data[0] & 0x80))
			check_text(&m, data + 1, size - 1);
		if (m.type == JUPYTER_STREAM && e.lines.bytes)
			check_told(&e, &m);
		jupyter_msg_free(&m);
	}
	buf_free(&b);
	events_free(&e);
	return 0;
}
