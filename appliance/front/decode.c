#include "decode.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* Length that a sequence's first byte announces; 0: no first byte. */
static size_t utf8_length(unsigned char c)
{
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c < 0xe0)
		return 2;
	if (c >= 0xe0 && c < 0xf0)
		return 3;
	return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

/* Length of the well-formed sequence at s, or 0. */
static size_t utf8_step(const unsigned char *s, size_t len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = s[0];
	size_t n = utf8_length(s[0]);

	if (n <= 1)
		return n;
	if (n > len)
		return 0;
	c &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	return n;
}

bool utf8_ok(const char *s, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_step((const unsigned char *)s + i, len - i);
		if (n == 0)
			return false;
	}
	return true;
}

void utf8_scrub(char *s)
{
	size_t len = strlen(s);

	for (size_t i = 0; i < len;) {
		size_t n = utf8_step((unsigned char *)s + i, len - i);

		if (n == 0)
			s[i] = '?';
		i += n ? n : 1;
	}
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int percent_decode(const char *in, size_t len, bool plus, char *out, size_t *ret_len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = in[i];

		if (c == '+' && plus) {
			c = ' ';
		} else if (c == '%') {
			int high = i + 2 < len ? hex_digit(in[i + 1]) : -1;
			int low = i + 2 < len ? hex_digit(in[i + 2]) : -1;

			if (high < 0 || low < 0)
				return -EINVAL;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (c == '\0')
			return -EINVAL;
		out[n++] = c;
	}
	if (!utf8_ok(out, n))
		return -EINVAL;
	out[n] = '\0';
	*ret_len = n;
	return 0;
}
