/* Messages in the two forms that clients of a kernel's WebSocket know. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "door_inner.h"

static unsigned char *encode_v1(const char *channel, const struct v1_part *part, size_t parts,
				size_t *ret_len)
{
	size_t len = v1_frame_size(channel, part, parts);
	unsigned char *bytes = malloc(LWS_PRE + len);

	if (!bytes)
		return NULL;
	v1_frame_write(bytes + LWS_PRE, channel, part, parts);
	*ret_len = len;
	return bytes;
}

static void add_part(struct buf *b, const char *key, const struct v1_part *p)
{
	buf_printf(b, ",\"%s\":", key);
	buf_add(b, p->bytes, p->len);
}

static void add_json(struct buf *b, const char *channel, const struct v1_part *part)
{
	buf_printf(b, "{\"channel\":\"%s\"", channel);
	add_part(b, "header", &part[0]);
	add_part(b, "parent_header", &part[1]);
	add_part(b, "metadata", &part[2]);
	add_part(b, "content", &part[3]);
	buf_add_str(b, ",\"buffers\":[]}");
}

static void add_u32(struct buf *b, size_t n)
{
	unsigned char raw[4] = { (n >> 24) & 0xff, (n >> 16) & 0xff, (n >> 8) & 0xff, n & 0xff };

	buf_add(b, raw, sizeof(raw));
}

/* Big-endian u32: number of pieces | offsets | JSON | buffers. */
static void add_buffers(struct buf *b, const char *channel, const struct v1_part *part, size_t parts)
{
	__attribute__((cleanup(buf_free))) struct buf json = { 0 };
	size_t n = parts - V1_PARTS_MIN + 1, at = 4 * (n + 1), i;

	add_json(&json, channel, part);
	b->failed |= json.failed;
	add_u32(b, n);
	add_u32(b, at);
	at += json.len;
	for (i = V1_PARTS_MIN; i < parts; i++) {
		add_u32(b, at);
		at += part[i].len;
	}
	buf_add(b, json.bytes, json.len);
	for (i = V1_PARTS_MIN; i < parts; i++)
		buf_add(b, part[i].bytes, part[i].len);
}

static unsigned char *encode_legacy(const char *channel, const struct v1_part *part, size_t parts,
				    size_t *ret_len, bool *ret_text)
{
	static const unsigned char room[LWS_PRE];
	struct buf b = { 0 };

	buf_add(&b, room, sizeof(room));
	*ret_text = parts == V1_PARTS_MIN;
	if (*ret_text)
		add_json(&b, channel, part);
	else
		add_buffers(&b, channel, part, parts);
	if (b.failed) {
		buf_free(&b);
		return NULL;
	}
	*ret_len = b.len - LWS_PRE;
	return (unsigned char *)b.bytes;
}

unsigned char *message_encode(const struct connection *c, const struct client_msg *m, size_t *ret_len,
			      bool *ret_text)
{
	const char *channel = jupyter_channel_name(m->payload[0]);
	struct v1_part part[V1_PARTS_MAX];
	size_t parts = jupyter_parts(m->payload, m->len, part);

	*ret_text = false;
	if (c->v1)
		return encode_v1(channel, part, parts, ret_len);
	return encode_legacy(channel, part, parts, ret_len, ret_text);
}

static const char *const keys[V1_PARTS_MIN] = { "header", "parent_header", "metadata", "content" };

void legacy_free(struct legacy_message *m)
{
	for (size_t i = 0; i < V1_PARTS_MIN; i++)
		free(m->text[i]);
}

int legacy_parse(const char *bytes, size_t len, struct legacy_message *ret)
{
	json_t *json = json_parse_bounded(bytes, len, JUPYTER_VALUES_MAX, JUPYTER_DEPTH_MAX);
	const char *channel = json_string_value(json_object_get(json, "channel"));
	struct legacy_message m = { .channel = "" };
	int err = json_is_object(json) ? 0 : -EBADMSG;
	size_t i;

	if (channel && strlen(channel) < sizeof(m.channel))
		snprintf(m.channel, sizeof(m.channel), "%s", channel);
	for (i = 0; !err && i < V1_PARTS_MIN; i++) {
		json_t *one = json_object_get(json, keys[i]);

		m.text[i] = json_is_object(one) ? json_dumps(one, JSON_COMPACT) : strdup("{}");
		if (!m.text[i])
			err = -ENOMEM;
		else
			m.part[i] = (struct v1_part){ .bytes = m.text[i], .len = strlen(m.text[i]) };
	}
	json_decref(json);
	if (err < 0) {
		legacy_free(&m);
		return err;
	}
	*ret = m;
	return 0;
}
