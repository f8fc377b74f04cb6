#include "events.h"

#include <errno.h>
#include <string.h>

#include "../store/clip.h"
#include "json_text.h"

static int line_append(const char *bytes, size_t len, void *arg)
{
	buf_add(arg, bytes, len);
	return 0;
}

int events_add(struct events *e, const char *type, json_t *fields)
{
	json_t *line = json_pack("{s:s,s:I}", "type", type, "seq", (json_int_t)(e->seq + 1));
	size_t before = e->lines.len;

	if (fields)
		json_object_update_missing(line, fields);
	json_decref(fields);
	if (!line || json_dump_callback(line, line_append, &e->lines, JSON_COMPACT | JSON_ENSURE_ASCII) < 0)
		e->lines.failed = true;
	json_decref(line);
	if (e->lines.len - before >= XLOG_LINE_MAX) {
		e->lines.len = before;
		return -EMSGSIZE;
	}
	buf_add(&e->lines, "\n", 1);
	e->bytes += e->lines.len - before;
	e->seq++;
	return 0;
}

/* What fits a line whatever it is: EVENT_TEXT_MAX bytes at six each. */
static void text_line(struct events *e, const char *type, const char *text, size_t len)
{
	size_t before = e->lines.len;

	buf_printf(&e->lines, "{\"type\":\"%s\",\"seq\":%llu,\"text\":", type, (unsigned long long)(e->seq + 1));
	json_text_write(&e->lines, text, len);
	buf_add_str(&e->lines, "}\n");
	e->bytes += e->lines.len - before;
	e->seq++;
}

void events_text(struct events *e, const char *type, const char *text, size_t len)
{
	while (len > 0) {
		size_t n = len <= EVENT_TEXT_MAX ? len : utf8_head_cut(text, EVENT_TEXT_MAX);

		text_line(e, type, text, n);
		text += n;
		len -= n;
	}
}

static size_t dumped_size(json_t *value)
{
	return json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
}

/* The types that fit one line together, smallest first so that text/plain is among them. */
static void bundle_fit(json_t *data, json_t *kept)
{
	size_t left = XLOG_LINE_MAX / 2;

	for (;;) {
		const char *key, *best = NULL;
		json_t *value;
		size_t best_size = 0;

		json_object_foreach(data, key, value)
		{
			size_t size;

			if (json_object_get(kept, key))
				continue;
			size = dumped_size(value);
			if (!best || size < best_size) {
				best = key;
				best_size = size;
			}
		}
		if (!best || best_size > left)
			break;
		left -= best_size;
		json_object_set(kept, best, json_object_get(data, best));
	}
}

static json_t *bundle_omitted(json_t *data, json_t *kept)
{
	json_t *omitted = json_array(), *value;
	const char *key;

	json_object_foreach(data, key, value)
	{
		if (!json_object_get(kept, key))
			json_array_append_new(omitted, json_string(key));
	}
	return omitted;
}

void events_bundle(struct events *e, const char *type, json_t *data, json_t *fields, const char *full_url)
{
	json_t *line = json_pack("{s:O}", "data", data);
	json_t *kept;

	json_object_update(line, fields);
	if (events_add(e, type, line) == 0) {
		json_decref(fields);
		return;
	}
	kept = json_object();
	bundle_fit(data, kept);
	line = json_pack("{s:o}", "data", kept);
	json_object_update(line, fields);
	json_object_set_new(line, "truncated", json_true());
	json_object_set_new(line, "omitted", bundle_omitted(data, kept));
	if (full_url)
		json_object_set_new(line, "full", json_string(full_url));
	json_decref(fields);
	events_add(e, type, line);
}

static json_t *cut_string(const char *text, size_t len)
{
	if (len > EVENT_ERROR_MAX)
		len = utf8_head_cut(text, EVENT_ERROR_MAX);
	return json_stringn(text, len);
}

json_t *error_fields(const char *name, const char *value, size_t value_len, json_t *traceback)
{
	json_t *lines = json_array(), *line;
	/* A line has 1 MiB and a byte of text may need six. */
	size_t i, left = 3 * EVENT_ERROR_MAX;

	json_array_foreach(traceback, i, line)
	{
		size_t n = json_string_length(line);

		if (n > left)
			n = utf8_head_cut(json_string_value(line), left);
		left -= n;
		json_array_append_new(lines, cut_string(json_string_value(line), n));
	}
	return json_pack("{s:o,s:o,s:o}", "name", cut_string(name, strlen(name)), "value",
			 cut_string(value, value_len), "traceback", lines);
}

void events_error(struct events *e, const char *name, const char *value, size_t value_len, json_t *traceback)
{
	events_add(e, "error", error_fields(name, value, value_len, traceback));
}

void events_taken(struct events *e)
{
	e->lines.len = 0;
	/* A burst's buffer is not kept for the silence after it. */
	if (e->lines.size > EVENT_TEXT_MAX)
		buf_free(&e->lines);
}

void events_free(struct events *e)
{
	buf_free(&e->lines);
}
