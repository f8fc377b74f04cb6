#include "core/utf8.h"

#include <string.h>

static const char REPLACEMENT[] = "\xef\xbf\xbd";

enum { BAD = 0, CUT = -1 };

static int lead_len(unsigned char c)
{
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef)
		return 3;
	if (c >= 0xf0 && c <= 0xf4)
		return 4;
	return 0;
}

/* The second byte is where overlong forms, surrogates and too large values show. */
static bool second_ok(unsigned char lead, unsigned char c)
{
	switch (lead) {
	case 0xe0:
		return c >= 0xa0 && c <= 0xbf;
	case 0xed:
		return c >= 0x80 && c <= 0x9f;
	case 0xf0:
		return c >= 0x90 && c <= 0xbf;
	case 0xf4:
		return c >= 0x80 && c <= 0x8f;
	default:
		return c >= 0x80 && c <= 0xbf;
	}
}

/* Length of the character at p, CUT when n ends inside it, or BAD; *skip is
 * then the length of the part to replace. */
static int char_len(const unsigned char *p, size_t n, size_t *skip)
{
	int len = p[0] < 0x80 ? 1 : lead_len(p[0]);
	int i;

	*skip = 1;
	if (len == 0)
		return BAD;
	for (i = 1; i < len; i++) {
		if ((size_t)i == n)
			return CUT;
		if (i == 1 ? !second_ok(p[0], p[1]) : (p[i] & 0xc0) != 0x80) {
			*skip = (size_t)i;
			return BAD;
		}
	}
	return len;
}

/* Returns how many bytes were used; what is left is the beginning of a character. */
static size_t decode(const unsigned char *p, size_t n, struct buf *out)
{
	size_t i = 0, start = 0, skip;
	int len;

	while (i < n) {
		if (p[i] < 0x80) {
			i++;
			continue;
		}
		len = char_len(p + i, n - i, &skip);
		if (len > 0) {
			i += (size_t)len;
			continue;
		}
		buf_put(out, p + start, i - start);
		if (len == CUT)
			return i;
		buf_put(out, REPLACEMENT, 3);
		i += skip;
		start = i;
	}
	buf_put(out, p + start, i - start);
	return i;
}

void utf8_feed(struct utf8_stream *u, const char *in, size_t n, struct buf *out)
{
	size_t used, take;

	/* Complete the kept tail byte by byte: at most three more. */
	while (u->n > 0 && n > 0) {
		unsigned char joined[sizeof(u->tail)];

		memcpy(joined, u->tail, u->n);
		joined[u->n] = (unsigned char)*in;
		take = (size_t)u->n + 1;
		used = decode(joined, take, out);
		in++;
		n--;
		u->n = (unsigned char)(take - used);
		memcpy(u->tail, joined + used, u->n);
	}
	used = decode((const unsigned char *)in, n, out);
	if (n > used) {
		u->n = (unsigned char)(n - used);
		memcpy(u->tail, in + used, u->n);
	}
}

void utf8_end(struct utf8_stream *u, struct buf *out)
{
	if (u->n > 0)
		buf_put(out, REPLACEMENT, 3);
	u->n = 0;
}
