#include "jupyter.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json_text.h"
#include "link/limits.h"
#include "times.h"

enum { PART_HEADER, PART_PARENT, PART_METADATA, PART_CONTENT, PARTS_MIN };

struct part {
	const char *bytes;
	size_t len;
};

static const struct {
	const char *name;
	enum jupyter_type type;
	enum jupyter_channel channel;
} types[] = {
	{ "status", JUPYTER_STATUS, JUPYTER_IOPUB },
	{ "execute_input", JUPYTER_EXECUTE_INPUT, JUPYTER_IOPUB },
	{ "stream", JUPYTER_STREAM, JUPYTER_IOPUB },
	{ "display_data", JUPYTER_DISPLAY, JUPYTER_IOPUB },
	{ "update_display_data", JUPYTER_UPDATE_DISPLAY, JUPYTER_IOPUB },
	{ "execute_result", JUPYTER_RESULT, JUPYTER_IOPUB },
	{ "error", JUPYTER_ERROR, JUPYTER_IOPUB },
	{ "clear_output", JUPYTER_CLEAR_OUTPUT, JUPYTER_IOPUB },
	{ "execute_reply", JUPYTER_EXECUTE_REPLY, JUPYTER_SHELL },
};

static uint32_t get_u32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static int parts_split(const uint8_t *payload, size_t len, struct part *parts)
{
	size_t at = 5, i;
	uint32_t n;

	if (len < 5 || payload[0] >= JUPYTER_CHANNELS)
		return -EPROTO;
	n = get_u32(payload + 1);
	if (n < PARTS_MIN || n > JUPYTER_PARTS_MAX)
		return -EPROTO;
	for (i = 0; i < n; i++) {
		uint32_t size;

		if (len - at < 4)
			return -EPROTO;
		size = get_u32(payload + at);
		at += 4;
		if (size > len - at)
			return -EPROTO;
		/* Buffers (past content) are of no use here; they were counted. */
		if (i < PARTS_MIN)
			parts[i] = (struct part){ .bytes = (const char *)payload + at, .len = size };
		at += size;
	}
	return at == len ? 0 : -EPROTO;
}

static json_t *part_object(const struct part *p)
{
	json_t *json = json_parse_bounded(p->bytes, p->len, JUPYTER_VALUES_MAX, JUPYTER_DEPTH_MAX);

	if (json && !json_is_object(json)) {
		json_decref(json);
		return NULL;
	}
	return json;
}

static void type_find(struct jupyter_msg *m, const char *name)
{
	size_t i, len = strlen(name);

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(types[i].name, name) != 0)
			continue;
		if (types[i].channel == m->channel)
			m->type = types[i].type;
		return;
	}
	if (len > 6 && strcmp(name + len - 6, "_reply") == 0)
		m->type = JUPYTER_REPLY;
}

static int header_read(const struct part *parts, struct jupyter_msg *m)
{
	json_t *header = part_object(&parts[PART_HEADER]);
	json_t *parent = part_object(&parts[PART_PARENT]);
	const char *type = json_string_value(json_object_get(header, "msg_type"));
	json_t *id = json_object_get(parent, "msg_id");
	bool ok = header && parent && type;

	if (ok)
		type_find(m, type);
	if (json_is_string(id) && json_string_length(id) < sizeof(m->parent_id) &&
	    strlen(json_string_value(id)) == json_string_length(id))
		memcpy(m->parent_id, json_string_value(id), json_string_length(id) + 1);
	json_decref(header);
	json_decref(parent);
	return ok ? 0 : -EBADMSG;
}

static bool mime_valid(const char *name, size_t len)
{
	size_t i, slashes = 0;

	if (len < 3 || len > JUPYTER_MIME_NAME_MAX || name[0] == '/' || name[len - 1] == '/')
		return false;
	for (i = 0; i < len; i++) {
		if (name[i] == '/')
			slashes++;
		else if (!isalnum((unsigned char)name[i]) && !strchr("-+._", name[i]))
			return false;
	}
	return slashes == 1;
}

/* Drops what is not a mime type; a bundle keeps its first JUPYTER_MIMES_MAX types. */
static void bundle_clean(json_t *data)
{
	const char *key;
	json_t *value;
	void *next;
	size_t kept = 0;

	json_object_foreach_safe(data, next, key, value)
	{
		if (kept < JUPYTER_MIMES_MAX && mime_valid(key, strlen(key)) && !json_is_null(value))
			kept++;
		else
			json_object_del(data, key);
	}
}

static int content_bundle(struct jupyter_msg *m)
{
	json_t *id = json_object_get(json_object_get(m->content, "transient"), "display_id");

	m->data = json_object_get(m->content, "data");
	if (!json_is_object(m->data))
		return -EBADMSG;
	bundle_clean(m->data);
	if (json_is_string(id) && json_string_length(id) < JUPYTER_ID_MAX)
		m->name = json_string_value(id);
	return 0;
}

static int content_error(struct jupyter_msg *m)
{
	json_t *name = json_object_get(m->content, "ename"), *value = json_object_get(m->content, "evalue");
	json_t *line;
	size_t i;

	m->traceback = json_object_get(m->content, "traceback");
	if (!json_is_string(name) || !json_is_string(value) || !json_is_array(m->traceback))
		return -EBADMSG;
	json_array_foreach(m->traceback, i, line)
	{
		if (!json_is_string(line))
			return -EBADMSG;
	}
	while (json_array_size(m->traceback) > JUPYTER_TRACEBACK_MAX)
		json_array_remove(m->traceback, json_array_size(m->traceback) / 2);
	m->name = json_string_value(name);
	m->text = json_string_value(value);
	m->len = json_string_length(value);
	return 0;
}

static bool token(const char **at, const char *end, const char *want)
{
	size_t len = strlen(want);

	while (*at < end && **at == ' ')
		(*at)++;
	if ((size_t)(end - *at) < len || memcmp(*at, want, len) != 0)
		return false;
	*at += len;
	while (*at < end && **at == ' ')
		(*at)++;
	return true;
}

/* {"name":…,"text":…} as kernels write it. False: the library reads it, or finds it wrong. */
static bool stream_read(const struct part *p, struct jupyter_msg *m)
{
	const char *at = p->bytes, *end = at + p->len;
	char *name = NULL, *text = NULL;
	size_t name_len, len = 0;
	bool ok;

	ok = token(&at, end, "{") && token(&at, end, "\"name\"") && token(&at, end, ":") &&
	     (name = json_text_read(&at, end, &name_len)) != NULL && token(&at, end, ",") &&
	     token(&at, end, "\"text\"") && token(&at, end, ":") &&
	     (text = json_text_read(&at, end, &len)) != NULL && token(&at, end, "}") && at == end;
	if (ok) {
		m->is_stderr = strcmp(name, "stderr") == 0;
		m->text = m->stream = text;
		m->len = len;
	} else {
		free(text);
	}
	free(name);
	return ok;
}

static int content_stream(struct jupyter_msg *m)
{
	const char *name = json_string_value(json_object_get(m->content, "name"));
	json_t *text = json_object_get(m->content, "text");

	if (!name || !json_is_string(text))
		return -EBADMSG;
	m->is_stderr = strcmp(name, "stderr") == 0;
	m->text = json_string_value(text);
	m->len = json_string_length(text);
	return 0;
}

static int content_word(struct jupyter_msg *m, const char *key)
{
	json_t *word = json_object_get(m->content, key);
	json_t *name = json_object_get(m->content, "ename");

	if (!json_is_string(word))
		return -EBADMSG;
	m->text = json_string_value(word);
	m->len = json_string_length(word);
	if (json_is_string(name))
		m->name = json_string_value(name);
	return 0;
}

static int content_read(struct jupyter_msg *m)
{
	json_t *count = json_object_get(m->content, "execution_count");

	if (json_is_integer(count) && json_integer_value(count) >= 0)
		m->execution_count = json_integer_value(count);
	switch (m->type) {
	case JUPYTER_STATUS:
		return content_word(m, "execution_state");
	case JUPYTER_EXECUTE_REPLY:
		return content_word(m, "status");
	case JUPYTER_STREAM:
		return content_stream(m);
	case JUPYTER_ERROR:
		return content_error(m);
	case JUPYTER_DISPLAY:
	case JUPYTER_UPDATE_DISPLAY:
	case JUPYTER_RESULT:
		return content_bundle(m);
	case JUPYTER_CLEAR_OUTPUT:
		m->wait = json_is_true(json_object_get(m->content, "wait"));
		return 0;
	case JUPYTER_EXECUTE_INPUT:
	case JUPYTER_REPLY:
	case JUPYTER_OTHER:
		return 0;
	}
	return 0;
}

int jupyter_parse(const uint8_t *payload, size_t len, struct jupyter_msg *ret)
{
	struct jupyter_msg m = { .name = "", .text = "", .execution_count = -1 };
	struct part parts[PARTS_MIN];
	int err;

	err = parts_split(payload, len, parts);
	if (err < 0)
		return err;
	m.channel = (enum jupyter_channel)payload[0];
	err = header_read(parts, &m);
	if (err < 0)
		return err;
	/* What nobody reads is not parsed: comm messages can be large. */
	if (m.type != JUPYTER_OTHER && !(m.type == JUPYTER_STREAM && stream_read(&parts[PART_CONTENT], &m))) {
		m.content = part_object(&parts[PART_CONTENT]);
		err = m.content ? content_read(&m) : -EBADMSG;
	}
	if (err < 0) {
		jupyter_msg_free(&m);
		return err;
	}
	*ret = m;
	return 0;
}

void jupyter_msg_free(struct jupyter_msg *m)
{
	json_decref(m->content);
	m->content = NULL;
	free(m->stream);
	m->stream = NULL;
}

static void add_u32(struct buf *b, size_t n)
{
	unsigned char raw[4] = { n & 0xff, (n >> 8) & 0xff, (n >> 16) & 0xff, (n >> 24) & 0xff };

	buf_add(b, raw, sizeof(raw));
}

static void add_part(struct buf *b, json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	if (!text) {
		b->failed = true;
		return;
	}
	add_u32(b, strlen(text));
	buf_add_str(b, text);
	free(text);
}

static void payload_begin(struct buf *b, enum jupyter_channel channel, size_t parts)
{
	unsigned char number = (unsigned char)channel;

	buf_add(b, &number, 1);
	add_u32(b, parts);
}

void jupyter_message(struct buf *b, enum jupyter_channel channel, const char *msg_id, const char *session,
		     const char *msg_type, json_t *parent, json_t *content)
{
	char date[TIME_SIZE];
	json_t *header, *empty = json_object();

	time_format(unix_ms(), date);
	header = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "msg_id", msg_id, "session", session, "username",
			   "carrel", "date", date, "msg_type", msg_type, "version", "5.3");
	payload_begin(b, channel, PARTS_MIN);
	add_part(b, header);
	add_part(b, parent ? parent : empty);
	add_part(b, empty);
	add_part(b, content);
	json_decref(header);
	json_decref(empty);
}

void jupyter_request(struct buf *b, enum jupyter_channel channel, const char *msg_id, const char *session,
		     const char *msg_type, json_t *content)
{
	jupyter_message(b, channel, msg_id, session, msg_type, NULL, content);
}

void jupyter_asked(struct buf *b, json_t *header, json_t *metadata, json_t *content)
{
	json_t *empty = json_object();

	payload_begin(b, JUPYTER_SHELL, PARTS_MIN);
	add_part(b, header);
	add_part(b, empty);
	add_part(b, metadata ? metadata : empty);
	add_part(b, content);
	json_decref(empty);
}

void jupyter_payload(struct buf *b, enum jupyter_channel channel, const struct v1_part *part, size_t parts)
{
	size_t i;

	payload_begin(b, channel, parts);
	for (i = 0; i < parts; i++) {
		add_u32(b, part[i].len);
		buf_add(b, part[i].bytes, part[i].len);
	}
}

size_t jupyter_parts(const uint8_t *payload, size_t len, struct v1_part part[V1_PARTS_MAX])
{
	size_t n = get_u32(payload + 1), at = 5, i;

	for (i = 0; i < n && at + 4 <= len; i++) {
		part[i] = (struct v1_part){ .bytes = payload + at + 4, .len = get_u32(payload + at) };
		at += 4 + part[i].len;
	}
	return i;
}

static const char *const channel_names[JUPYTER_CHANNELS] = {
	[JUPYTER_SHELL] = "shell",
	[JUPYTER_CONTROL] = "control",
	[JUPYTER_STDIN] = "stdin",
	[JUPYTER_IOPUB] = "iopub",
};

const char *jupyter_channel_name(unsigned channel)
{
	return channel < JUPYTER_CHANNELS ? channel_names[channel] : "iopub";
}

int jupyter_channel_number(const char *name, enum jupyter_channel *ret)
{
	unsigned i;

	if (!*name)
		name = channel_names[JUPYTER_SHELL];
	for (i = 0; i < JUPYTER_CHANNELS; i++) {
		if (strcmp(name, channel_names[i]) != 0)
			continue;
		*ret = (enum jupyter_channel)i;
		return 0;
	}
	return -EINVAL;
}

json_t *jupyter_execute_content(const char *code, bool silent)
{
	return json_pack("{s:s,s:b,s:b,s:{},s:b,s:b}", "code", code, "silent", silent, "store_history",
			 !silent, "user_expressions", "allow_stdin", 0, "stop_on_error", 0);
}
