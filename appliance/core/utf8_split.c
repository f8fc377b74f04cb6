#include "utf8_split.h"

/* Length of the character that a lead byte begins, 0: none. */
static size_t lead_length(unsigned char c)
{
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef)
		return 3;
	return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

/* The second byte's bounds keep out overlong forms, surrogates and what is past U+10FFFF. */
static bool second_valid(unsigned char lead, unsigned char c)
{
	unsigned char low = 0x80, high = 0xbf;

	if (lead == 0xe0)
		low = 0xa0;
	else if (lead == 0xed)
		high = 0x9f;
	else if (lead == 0xf0)
		low = 0x90;
	else if (lead == 0xf4)
		high = 0x8f;
	return c >= low && c <= high;
}

/* How many of the first n (< length) bytes fit a character. */
static bool prefix_valid(const unsigned char *c, size_t n)
{
	size_t i;

	if (n > 1 && !second_valid(c[0], c[1]))
		return false;
	for (i = 2; i < n; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return false;
	}
	return true;
}

size_t utf8_valid(const char *text, size_t len)
{
	const unsigned char *c = (const unsigned char *)text;
	size_t at = 0;

	while (at < len) {
		size_t n = lead_length(c[at]);

		if (n == 0 || n > len - at || !prefix_valid(c + at, n))
			break;
		at += n;
	}
	return at;
}

bool utf8_may_continue(const char *text, size_t n)
{
	const unsigned char *c = (const unsigned char *)text;
	size_t length = n > 0 ? lead_length(c[0]) : 0;

	return length > n && prefix_valid(c, n);
}
