#include "lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int line_done(struct lines *l, const char *text, size_t len)
{
	json_t *event;
	int got;

	if (len == 0)
		return 0;
	event = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
	if (!json_is_object(event)) {
		json_decref(event);
		return -EBADMSG;
	}
	got = l->each(event, text, len, l->arg);
	json_decref(event);
	return got;
}

static int line_keep(struct lines *l, const char *bytes, size_t len)
{
	size_t size = l->size ? l->size : 4096;
	char *part;

	if (l->len + len > LINE_MAX_BYTES)
		return -EMSGSIZE;
	while (size < l->len + len)
		size *= 2;
	if (size > l->size) {
		part = realloc(l->part, size);
		if (!part)
			return -ENOMEM;
		l->part = part;
		l->size = size;
	}
	memcpy(l->part + l->len, bytes, len);
	l->len += len;
	return 0;
}

int lines_feed(struct lines *l, const char *bytes, size_t len)
{
	int got = 0;

	while (len > 0 && got == 0) {
		const char *end = memchr(bytes, '\n', len);
		size_t piece = end ? (size_t)(end - bytes) : len;

		if (!end)
			return line_keep(l, bytes, piece);
		if (l->len == 0) {
			got = piece > LINE_MAX_BYTES ? -EMSGSIZE : line_done(l, bytes, piece);
		} else {
			got = line_keep(l, bytes, piece);
			if (got == 0)
				got = line_done(l, l->part, l->len);
			l->len = 0;
		}
		bytes = end + 1;
		len -= piece + 1;
	}
	return got;
}

void lines_free(struct lines *l)
{
	free(l->part);
	l->part = NULL;
	l->len = l->size = 0;
}
