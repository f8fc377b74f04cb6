#include "base64.h"

#include <stdlib.h>
#include <string.h>

static int digit_value(char digit)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = digit ? strchr(digits, digit) : NULL;

	return at ? (int)(at - digits) : -1;
}

char *base64_decode(const char *text, size_t *ret_len)
{
	char *bytes = malloc(strlen(text) / 4 * 3 + 4);
	unsigned held = 0, bits = 0;
	size_t len = 0;

	for (; bytes && *text && *text != '='; text++) {
		int value = digit_value(*text);

		if (strchr(" \t\r\n", *text))
			continue;
		if (value < 0) {
			free(bytes);
			return NULL;
		}
		held = held << 6 | (unsigned)value;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			bytes[len++] = (char)(held >> bits);
		}
	}
	if (bytes)
		*ret_len = len;
	return bytes;
}
