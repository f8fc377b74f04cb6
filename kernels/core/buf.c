#include "core/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Streams send many short texts: start where a line of output fits. */
#define BUF_FIRST 256

void buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}

char *buf_room(struct buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : BUF_FIRST;
	char *data;

	if (b->failed)
		return NULL;
	if (n <= b->cap - b->len && b->data)
		return b->data + b->len;
	if (n > SIZE_MAX / 2 - b->len) {
		b->failed = true;
		return NULL;
	}
	while (cap < b->len + n)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return NULL;
	}
	b->data = data;
	b->cap = cap;
	return data + b->len;
}

void buf_put(struct buf *b, const void *data, size_t n)
{
	char *at = buf_room(b, n);

	if (!at || n == 0)
		return;
	memcpy(at, data, n);
	b->len += n;
}

void buf_puts(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s));
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c != '"' && c != '\\';
}

static void put_escaped(struct buf *b, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	char text[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

	switch (c) {
	case '\n':
		buf_put(b, "\\n", 2);
		return;
	case '\r':
		buf_put(b, "\\r", 2);
		return;
	case '\t':
		buf_put(b, "\\t", 2);
		return;
	case '"':
		buf_put(b, "\\\"", 2);
		return;
	case '\\':
		buf_put(b, "\\\\", 2);
		return;
	default:
		buf_put(b, text, sizeof(text));
	}
}

void buf_json_escape(struct buf *b, const char *s, size_t n)
{
	size_t i = 0, start;

	while (i < n) {
		start = i;
		while (i < n && is_plain((unsigned char)s[i]))
			i++;
		buf_put(b, s + start, i - start);
		if (i < n)
			put_escaped(b, (unsigned char)s[i++]);
	}
}
