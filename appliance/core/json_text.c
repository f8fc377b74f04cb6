#include "json_text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8_split.h"

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* One character of valid UTF-8 -> its bytes */
static size_t decode(const unsigned char *c, uint32_t *ret)
{
	if (c[0] < 0x80) {
		*ret = c[0];
		return 1;
	}
	if (c[0] < 0xe0) {
		*ret = (uint32_t)(c[0] & 0x1f) << 6 | (c[1] & 0x3f);
		return 2;
	}
	if (c[0] < 0xf0) {
		*ret = (uint32_t)(c[0] & 0x0f) << 12 | (uint32_t)(c[1] & 0x3f) << 6 | (c[2] & 0x3f);
		return 3;
	}
	*ret = (uint32_t)(c[0] & 0x07) << 18 | (uint32_t)(c[1] & 0x3f) << 12 | (uint32_t)(c[2] & 0x3f) << 6 | (c[3] & 0x3f);
	return 4;
}

static const struct {
	char text, escape;
} escapes[] = { { '\n', 'n' }, { '"', '"' }, { '\\', '\\' }, { '\t', 't' }, { '\r', 'r' }, { '\b', 'b' }, { '\f', 'f' } };

static void write_escaped(struct buf *b, uint32_t code)
{
	char text[16];
	int n;

	for (size_t i = 0; i < sizeof(escapes) / sizeof(*escapes); i++) {
		if (code == (unsigned char)escapes[i].text) {
			buf_add(b, (const char[]){ '\\', escapes[i].escape }, 2);
			return;
		}
	}
	if (code < 0x10000)
		n = snprintf(text, sizeof(text), "\\u%04X", code);
	else
		n = snprintf(text, sizeof(text), "\\u%04X\\u%04X", 0xd800 + ((code - 0x10000) >> 10),
			     0xdc00 + ((code - 0x10000) & 0x3ff));
	buf_add(b, text, (size_t)n);
}

void json_text_write(struct buf *b, const char *text, size_t len)
{
	const unsigned char *at = (const unsigned char *)text, *end = at + len, *from;
	uint32_t code;

	buf_add(b, "\"", 1);
	while (at < end) {
		for (from = at; at < end && is_plain(*at); at++)
			;
		buf_add(b, from, (size_t)(at - from));
		if (at < end) {
			at += decode(at, &code);
			write_escaped(b, code);
		}
	}
	buf_add(b, "\"", 1);
}

/* -1: it is the library's. */
static int unescape(char c)
{
	if (c == '/')
		return '/';
	for (size_t i = 0; i < sizeof(escapes) / sizeof(*escapes); i++)
		if (c == escapes[i].escape)
			return escapes[i].text;
	return -1;
}

/* What is between the quotation marks -> its length, or -1 */
static long unescape_all(const char *at, const char *end, char *to)
{
	char *out = to;

	while (at < end) {
		const char *mark = memchr(at, '\\', (size_t)(end - at));
		size_t n = (size_t)((mark ? mark : end) - at);
		int c;

		memcpy(out, at, n);
		out += n;
		at += n;
		if (!mark)
			break;
		c = end - at >= 2 ? unescape(at[1]) : -1;
		if (c < 0)
			return -1;
		*out++ = (char)c;
		at += 2;
	}
	return out - to;
}

/* Where the string ends, or NULL: no end, or a control character. */
static const char *closing(const char *at, const char *end)
{
	for (; at < end && *at != '"'; at++) {
		if ((unsigned char)*at < 0x20)
			return NULL;
		if (*at == '\\' && ++at == end)
			return NULL;
	}
	return at < end ? at : NULL;
}

char *json_text_read(const char **at, const char *end, size_t *ret_len)
{
	const char *from = *at + 1, *close;
	char *text;
	long len;

	if (*at >= end || **at != '"' || !(close = closing(from, end)))
		return NULL;
	if (utf8_valid(from, (size_t)(close - from)) != (size_t)(close - from))
		return NULL;
	text = malloc((size_t)(close - from) + 1);
	len = text ? unescape_all(from, close, text) : -1;
	if (len < 0) {
		free(text);
		return NULL;
	}
	text[len] = '\0';
	*ret_len = (size_t)len;
	*at = close + 1;
	return text;
}
