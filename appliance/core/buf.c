#include "buf.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *buf_room(struct buf *b, size_t n)
{
	size_t size = b->size ? b->size : 256;
	char *bytes;

	if (b->failed)
		return NULL;
	while (size - b->len < n)
		size *= 2;
	if (size != b->size) {
		bytes = realloc(b->bytes, size);
		if (!bytes) {
			b->failed = true;
			return NULL;
		}
		b->bytes = bytes;
		b->size = size;
	}
	return b->bytes + b->len;
}

void buf_add(struct buf *b, const void *bytes, size_t len)
{
	char *at = buf_room(b, len + 1);

	if (!at)
		return;
	if (len > 0)
		memcpy(at, bytes, len);
	at[len] = '\0';
	b->len += len;
}

void buf_add_str(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	char *at;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	at = n < 0 ? NULL : buf_room(b, (size_t)n + 1);
	if (!at)
		return;
	va_start(ap, fmt);
	vsnprintf(at, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void buf_add_url(struct buf *b, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	for (; *at; at++) {
		if (isalnum(*at) || strchr("-._~/", *at))
			buf_add(b, at, 1);
		else
			buf_printf(b, "%%%02X", *at);
	}
}

void buf_free(struct buf *b)
{
	free(b->bytes);
	*b = (struct buf){ 0 };
}
