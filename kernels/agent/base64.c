#include "base64.h"

#include <openssl/evp.h>

#include "util.h"

uint8_t *base64_decode(const char *text, size_t *ret_len)
{
	size_t len = strlen(text), padding = 0;
	uint8_t *bytes;
	int n;

	if (len % 4 || len > INT32_MAX)
		return NULL;
	while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
		padding++;
	bytes = xcalloc(len / 4 * 3 + 1, 1);
	n = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len);
	if (n < 0 || (size_t)n != len / 4 * 3) {
		free(bytes);
		return NULL;
	}
	*ret_len = (size_t)n - padding;
	return bytes;
}

char *base64_random(size_t n)
{
	uint8_t *bytes = xcalloc(n, 1);
	char *text = xcalloc((n + 2) / 3 * 4 + 1, 1);

	random_bytes(bytes, n);
	EVP_EncodeBlock((unsigned char *)text, bytes, (int)n);
	free(bytes);
	return text;
}
