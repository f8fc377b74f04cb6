#include "core/request.h"
#include "core/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex4(const char *s)
{
	int v = 0, i, c;

	for (i = 0; i < 4; i++) {
		c = s[i];
		if (c >= '0' && c <= '9')
			v = v * 16 + c - '0';
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			v = v * 16 + (c | 32) - 'a' + 10;
		else
			return -1;
	}
	return v;
}

/* The escape at s is \uXXXX with a value in [low, high]. */
static bool is_escape_in(const char *s, size_t n, int low, int high)
{
	int v;

	if (n < 6 || s[0] != '\\' || s[1] != 'u')
		return false;
	v = hex4(s + 2);
	return v >= low && v <= high;
}

/* Browsers escape half a surrogate pair as it is: make it U+FFFD. */
static void replace_lone_surrogates(char *s, size_t n)
{
	size_t i = 0;

	while (i + 1 < n) {
		if (s[i] != '\\') {
			i++;
		} else if (is_escape_in(s + i, n - i, 0xd800, 0xdbff) &&
			   is_escape_in(s + i + 6, n - i > 6 ? n - i - 6 : 0, 0xdc00, 0xdfff)) {
			i += 12;
		} else if (is_escape_in(s + i, n - i, 0xd800, 0xdfff)) {
			memcpy(s + i + 2, "fffd", 4);
			i += 6;
		} else {
			i += 2;
		}
	}
}

static json_t *parse_object(const struct slice *s, bool *repaired, char *why, size_t why_size)
{
	BUF_AUTO fixed = { 0 };
	struct utf8_stream u = { .n = 0 };
	json_error_t err;
	json_t *j = json_loadb(s->data, s->len, JSON_ALLOW_NUL, &err);

	*repaired = !j;
	if (!j) {
		utf8_feed(&u, s->data, s->len, &fixed);
		utf8_end(&u, &fixed);
		if (fixed.failed || !fixed.data)
			return NULL;
		replace_lone_surrogates(fixed.data, fixed.len);
		j = json_loadb(fixed.data, fixed.len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &err);
	}
	if (!j) {
		snprintf(why, why_size, "%s", err.text);
		return NULL;
	}
	if (json_is_object(j))
		return j;
	snprintf(why, why_size, "it is not a JSON object");
	json_decref(j);
	return NULL;
}

static int read_header(struct request *r)
{
	char why[JSON_ERROR_TEXT_LENGTH];
	bool repaired;
	char *text;

	r->header = parse_object(&r->view.part[WIRE_HEADER], &repaired, why, sizeof(why));
	r->type = json_string_value(json_object_get(r->header, "msg_type"));
	if (!r->type)
		return -EBADMSG;
	/* The header goes out again as the parent of every answer: as it came,
	 * when that is JSON for everyone. */
	if (repaired) {
		text = json_dumps(r->header, JSON_COMPACT);
		r->parent = text ? parent_new(text, strlen(text)) : NULL;
		free(text);
	} else {
		r->parent = parent_new(r->view.part[WIRE_HEADER].data, r->view.part[WIRE_HEADER].len);
	}
	return r->parent ? 0 : -ENOMEM;
}

static int read_parts(struct request *r)
{
	bool repaired;
	int err = read_header(r);

	if (err)
		return err;
	r->content = parse_object(&r->view.part[WIRE_CONTENT], &repaired, r->malformed, sizeof(r->malformed));
	if (!r->content) {
		if (!r->malformed[0])
			return -ENOMEM;
		r->content = json_object();
	}
	return r->content ? 0 : -ENOMEM;
}

int request_parse(struct wire_signer *s, enum connection_channel channel, struct frames *frames, struct request **ret)
{
	struct request *r = calloc(1, sizeof(*r));
	size_t i;
	int err;

	if (!r) {
		frames_free(frames);
		return -ENOMEM;
	}
	r->channel = channel;
	for (i = 0; i < frames->n; i++) {
		zmq_msg_init(&r->frames.msg[i]);
		zmq_msg_move(&r->frames.msg[i], &frames->msg[i]);
		/* Small messages live inside zmq_msg_t, so their bytes moved. */
		r->frames.slice[i].data = zmq_msg_data(&r->frames.msg[i]);
		r->frames.slice[i].len = zmq_msg_size(&r->frames.msg[i]);
		r->frames.n++;
	}
	frames_free(frames);
	err = wire_parse(s, r->frames.slice, r->frames.n, &r->view);
	if (!err)
		err = read_parts(r);
	if (err) {
		request_free(r);
		return err;
	}
	*ret = r;
	return 0;
}

void request_free(struct request *r)
{
	if (!r)
		return;
	json_decref(r->header);
	json_decref(r->content);
	parent_unref(r->parent);
	frames_free(&r->frames);
	free(r);
}

bool request_bool(const struct request *r, const char *name, bool absent)
{
	const json_t *j = json_object_get(r->content, name);

	if (!json_is_boolean(j))
		return absent;
	return json_is_true(j);
}
