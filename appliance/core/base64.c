#include "base64.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

char *base64_encode(const void *bytes, size_t len)
{
	char *text = malloc((len + 2) / 3 * 4 + 1);

	if (text)
		EVP_EncodeBlock((unsigned char *)text, bytes, (int)len);
	return text;
}

char *base64_decode(const char *text, size_t len, size_t *ret_len)
{
	char *packed = malloc(len + 1);
	unsigned char *bytes = malloc(len / 4 * 3 + 4);
	size_t i, n = 0, pad = 0;
	int got = -1;

	if (packed && bytes) {
		for (i = 0; i < len; i++) {
			if (!isspace((unsigned char)text[i]))
				packed[n++] = text[i];
		}
		while (pad < 2 && pad < n && packed[n - 1 - pad] == '=')
			pad++;
		if (n % 4 == 0)
			got = EVP_DecodeBlock(bytes, (const unsigned char *)packed, (int)n);
	}
	free(packed);
	if (got < 0) {
		free(bytes);
		return NULL;
	}
	*ret_len = (size_t)got - pad;
	return (char *)bytes;
}
