#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"

void outputs_init(struct outputs *o, const char *execution_id)
{
	*o = (struct outputs){ 0 };
	snprintf(o->execution_id, sizeof(o->execution_id), "%s", execution_id);
	clip_init(&o->clip, OUTPUT_HEAD_MAX, OUTPUT_TAIL_MAX);
}

static const char *stream_name(const char *kind)
{
	if (kind && strcmp(kind, "stdout") == 0)
		return "stdout";
	if (kind && strcmp(kind, "stderr") == 0)
		return "stderr";
	return NULL;
}

void outputs_restore(struct outputs *o, json_t *rows)
{
	json_t *row = json_array_get(rows, json_array_size(rows) - 1);
	json_t *head = json_object_get(row, "head"), *tail = json_object_get(row, "tail");
	const char *stream = stream_name(json_string_value(json_object_get(row, "kind")));

	o->n = (unsigned)json_integer_value(json_object_get(row, "n"));
	if (!stream)
		return;
	/* Without memory the next text begins a new output. */
	if (clip_restore(&o->clip, json_string_value(head), json_string_length(head), json_string_value(tail),
			 json_string_length(tail),
			 (uint64_t)json_integer_value(json_object_get(row, "bytes"))) < 0)
		return;
	o->stream = stream;
	o->spooled = (uint64_t)json_integer_value(json_object_get(row, "spooled"));
}

/* Everything so far, once it no longer fits the row. */
static void spool_begin(struct outputs *o, struct store_txn *t)
{
	size_t len;
	const char *text = clip_head(&o->clip, &len);

	store_txn_spool(t, o->execution_id, o->n, 0, text, len);
	o->spooled = len;
}

static void spool_add(struct outputs *o, struct store_txn *t, const char *text, size_t len)
{
	uint64_t left = SPOOL_MAX - o->spooled;

	if (len > left)
		len = (size_t)left;
	if (len > 0)
		store_txn_spool(t, o->execution_id, o->n, o->spooled, text, len);
	o->spooled += len;
}

static void truncated_event(struct events *e, const char *stream, uint64_t total, uint64_t kept)
{
	events_add(e, "truncated",
		   json_pack("{s:s,s:I,s:I}", "stream", stream, "bytes_total", (json_int_t)total,
			     "bytes_kept", (json_int_t)kept));
}

static void text_finish(struct outputs *o, struct store_txn *t, struct events *e)
{
	size_t head_len, tail_len;

	outputs_flush(o, t);
	if (o->stream && clip_truncated(&o->clip)) {
		clip_head(&o->clip, &head_len);
		clip_tail(&o->clip, &tail_len);
		truncated_event(e, o->stream, clip_total(&o->clip), head_len + tail_len);
	}
	o->stream = NULL;
	o->spooled = 0;
	clip_free(&o->clip);
	clip_init(&o->clip, OUTPUT_HEAD_MAX, OUTPUT_TAIL_MAX);
}

/* A new number, or 0 past the bound. */
static unsigned output_next(struct outputs *o)
{
	if (o->n >= OUTPUTS_MAX) {
		o->folded++;
		return 0;
	}
	return ++o->n;
}

int outputs_text(struct outputs *o, struct store_txn *t, struct events *e, const char *stream,
		 const char *text, size_t len)
{
	bool fits;

	if (!o->stream || strcmp(o->stream, stream) != 0) {
		text_finish(o, t, e);
		if (!output_next(o))
			return 0;
		o->stream = stream;
	}
	fits = clip_total(&o->clip) + len <= OUTPUT_HEAD_MAX + OUTPUT_TAIL_MAX;
	if (!fits && o->spooled == 0)
		spool_begin(o, t);
	if (!fits)
		spool_add(o, t, text, len);
	o->dirty = true;
	return clip_append(&o->clip, text, len);
}

void outputs_flush(struct outputs *o, struct store_txn *t)
{
	struct output_row row = { .n = o->n, .kind = o->stream, .mime = NULL };

	if (!o->dirty)
		return;
	o->dirty = false;
	memcpy(row.execution_id, o->execution_id, sizeof(row.execution_id));
	row.head = clip_head(&o->clip, &row.head_len);
	row.tail = clip_tail(&o->clip, &row.tail_len);
	row.bytes = clip_total(&o->clip);
	row.spooled = o->spooled;
	row.truncated = clip_truncated(&o->clip);
	store_txn_output(t, &row);
}

const char *bundle_main_mime(json_t *data)
{
	static const char *const order[] = { "image/png",        "image/jpeg", "image/svg+xml", "image/gif",
					     "application/pdf",  "text/html",  "text/markdown", "text/latex",
					     "application/json", "text/plain" };
	size_t i;

	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (json_object_get(data, order[i]))
			return order[i];
	}
	return json_object_iter_key(json_object_iter(data));
}

static bool mime_is_binary(const char *mime)
{
	return (strncmp(mime, "image/", 6) == 0 && strcmp(mime, "image/svg+xml") != 0) ||
	       strncmp(mime, "audio/", 6) == 0 || strncmp(mime, "video/", 6) == 0 ||
	       strcmp(mime, "application/pdf") == 0;
}

/* The bytes that /full answers for one type of a bundle; allocated. */
static char *bundle_bytes(json_t *value, const char *mime, size_t *ret_len)
{
	char *bytes;

	if (!json_is_string(value)) {
		bytes = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
		*ret_len = bytes ? strlen(bytes) : 0;
		return bytes;
	}
	if (mime_is_binary(mime)) {
		bytes = base64_decode(json_string_value(value), json_string_length(value), ret_len);
		if (bytes)
			return bytes;
	}
	*ret_len = json_string_length(value);
	bytes = malloc(*ret_len + 1);
	if (bytes)
		memcpy(bytes, json_string_value(value), *ret_len + 1);
	return bytes;
}

static uint64_t bundle_spool(struct outputs *o, struct store_txn *t, unsigned n, json_t *value,
			     const char *mime, uint64_t *ret_total)
{
	size_t len, at, kept;
	char *bytes = bundle_bytes(value, mime, &len);

	if (!bytes)
		return 0;
	kept = len < SPOOL_MAX ? len : SPOOL_MAX;
	/* In pieces, as the store copies each. */
	for (at = 0; at < kept; at += OUTPUT_DATA_MAX)
		store_txn_spool(t, o->execution_id, n, at, bytes + at,
				kept - at < OUTPUT_DATA_MAX ? kept - at : OUTPUT_DATA_MAX);
	*ret_total = len;
	free(bytes);
	return kept;
}

/* The row's text: the bundle's text/plain, clipped. */
static void row_text(struct output_row *row, struct clip *clip, const char *text, size_t len)
{
	clip_init(clip, OUTPUT_HEAD_MAX, OUTPUT_TAIL_MAX);
	if (len > 0 && clip_append(clip, text, len) < 0)
		return;
	row->head = clip_head(clip, &row->head_len);
	row->tail = clip_tail(clip, &row->tail_len);
	row->bytes = clip_total(clip);
	row->truncated = clip_truncated(clip);
}

static void bundle_row(struct outputs *o, struct store_txn *t, unsigned n, const char *kind, json_t *data)
{
	struct output_row row = { .n = n, .kind = kind, .mime = bundle_main_mime(data) };
	json_t *plain = json_object_get(data, "text/plain");
	size_t size = json_dumpb(data, NULL, 0, JSON_COMPACT);
	bool plain_long = json_string_length(plain) > OUTPUT_HEAD_MAX + OUTPUT_TAIL_MAX;
	bool only_plain = row.mime && strcmp(row.mime, "text/plain") == 0;
	struct clip clip;

	memcpy(row.execution_id, o->execution_id, sizeof(row.execution_id));
	row_text(&row, &clip, json_is_string(plain) ? json_string_value(plain) : "",
		 json_string_length(plain));
	if (row.mime && (size > OUTPUT_DATA_MAX || (plain_long && only_plain))) {
		row.spooled = bundle_spool(o, t, n, json_object_get(data, row.mime), row.mime, &row.bytes);
		row.truncated = true;
	} else {
		row.data = data;
	}
	store_txn_output(t, &row);
	clip_free(&clip);
}

static unsigned display_find(const struct outputs *o, const char *display_id)
{
	unsigned i;

	for (i = 0; i < OUTPUT_DISPLAYS_MAX; i++) {
		if (o->displays[i].n && strcmp(o->displays[i].id, display_id) == 0)
			return o->displays[i].n;
	}
	return 0;
}

static void display_note(struct outputs *o, const char *display_id, unsigned n)
{
	unsigned at = o->displays_at++ % OUTPUT_DISPLAYS_MAX;

	snprintf(o->displays[at].id, sizeof(o->displays[at].id), "%s", display_id);
	o->displays[at].n = n;
}

unsigned outputs_bundle(struct outputs *o, struct store_txn *t, struct events *e, const char *kind,
			json_t *data, const char *display_id, bool update)
{
	unsigned n = update && display_id[0] ? display_find(o, display_id) : 0;

	if (!n) {
		text_finish(o, t, e);
		n = output_next(o);
		if (n && display_id[0])
			display_note(o, display_id, n);
	}
	if (n)
		bundle_row(o, t, n, kind, data);
	return n;
}

static void traceback_text(struct buf *b, const char *name, const char *value, size_t value_len,
			   json_t *traceback)
{
	json_t *line;
	size_t i;

	json_array_foreach(traceback, i, line)
	{
		if (i > 0)
			buf_add(b, "\n", 1);
		buf_add(b, json_string_value(line), json_string_length(line));
	}
	if (json_array_size(traceback) > 0)
		return;
	buf_printf(b, "%s: ", name);
	buf_add(b, value, value_len);
}

void outputs_error(struct outputs *o, struct store_txn *t, struct events *e, const char *name,
		   const char *value, size_t value_len, json_t *traceback)
{
	struct output_row row = { .kind = "error" };
	struct buf text = { 0 };
	struct clip clip;

	text_finish(o, t, e);
	row.n = output_next(o);
	if (!row.n)
		return;
	memcpy(row.execution_id, o->execution_id, sizeof(row.execution_id));
	traceback_text(&text, name, value, value_len, traceback);
	row_text(&row, &clip, text.bytes, text.failed ? 0 : text.len);
	if (row.truncated && text.len <= SPOOL_MAX) {
		store_txn_spool(t, o->execution_id, row.n, 0, text.bytes, text.len);
		row.spooled = text.len;
	}
	row.data = error_fields(name, value, value_len, traceback);
	store_txn_output(t, &row);
	json_decref(row.data);
	clip_free(&clip);
	buf_free(&text);
}

void outputs_close(struct outputs *o, struct store_txn *t, struct events *e)
{
	text_finish(o, t, e);
	if (o->folded)
		truncated_event(e, "outputs", o->n + o->folded, o->n);
}

void outputs_free(struct outputs *o)
{
	clip_free(&o->clip);
}
