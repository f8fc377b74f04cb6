#include "sign.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/core_names.h>

#include "util.h"

struct signer {
	EVP_MAC *mac;
	EVP_MAC_CTX *ctx; /* keyed once: looking the algorithm up costs more than a short message */
};

struct signer *signer_new(const char *key)
{
	struct signer *s = xcalloc(1, sizeof(*s));
	char digest[] = "SHA256";
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};

	s->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	s->ctx = s->mac ? EVP_MAC_CTX_new(s->mac) : NULL;
	if (!s->ctx || !EVP_MAC_init(s->ctx, (const unsigned char *)key, strlen(key), params))
		abort();
	return s;
}

void signer_free(struct signer *s)
{
	if (!s)
		return;
	EVP_MAC_CTX_free(s->ctx);
	EVP_MAC_free(s->mac);
	free(s);
}

void signer_sign(struct signer *s, const struct wire_message *m, char *hex)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char sum[SIGN_HEX / 2];
	size_t len = 0, i;

	if (!EVP_MAC_init(s->ctx, NULL, 0, NULL))
		abort();
	for (i = 0; i < WIRE_SIGNED; i++)
		EVP_MAC_update(s->ctx, m->part[i].bytes, m->part[i].len);
	if (!EVP_MAC_final(s->ctx, sum, &len, sizeof(sum)) || len != sizeof(sum))
		abort();
	for (i = 0; i < sizeof(sum); i++) {
		hex[2 * i] = digits[sum[i] >> 4];
		hex[2 * i + 1] = digits[sum[i] & 15];
	}
}

bool signer_check(struct signer *s, const struct wire_message *m, const void *hex, size_t len)
{
	char want[SIGN_HEX];

	if (len != SIGN_HEX)
		return false;
	signer_sign(s, m, want);
	return CRYPTO_memcmp(want, hex, SIGN_HEX) == 0;
}
