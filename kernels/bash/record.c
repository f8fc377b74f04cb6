#include "bash/record.h"

#include <string.h>

static void finish(struct record_reader *r, void (*take)(void *arg, char *text, size_t len), void *arg)
{
	buf_put(&r->text, "", 1);
	if (!r->text.failed && !r->skipping)
		take(arg, r->text.data, r->text.len - 1);
	record_reset(r);
}

void record_reset(struct record_reader *r)
{
	/* Short ones, which nearly all are, keep the memory. */
	if (r->text.cap > 65536 || r->text.failed)
		buf_free(&r->text);
	r->text.len = 0;
	r->skipping = false;
}

void record_feed(struct record_reader *r, const char *data, size_t n,
		 void (*take)(void *arg, char *text, size_t len), void *arg)
{
	const char *end;
	size_t part;

	while (n > 0) {
		end = memchr(data, '\0', n);
		part = end ? (size_t)(end - data) : n;
		if (r->skipping || r->text.len + part > RECORD_MAX)
			r->skipping = true;
		else
			buf_put(&r->text, data, part);
		if (!end)
			return;
		finish(r, take, arg);
		data += part + 1;
		n -= part + 1;
	}
}

size_t record_split(char *text, char **fields, size_t n)
{
	size_t i = 0;

	while (text && i < n) {
		fields[i++] = text;
		text = i < n ? strchr(text, '\x1f') : NULL;
		if (text)
			*text++ = '\0';
	}
	for (text = i ? fields[i - 1] : NULL; text && (text = strchr(text, '\x1e'));)
		*text = '\n';
	return i;
}
