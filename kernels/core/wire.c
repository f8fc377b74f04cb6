#include "core/wire.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/core_names.h>
#include <openssl/params.h>

static const char DELIMITER[] = "<IDS|MSG>";
#define DELIMITER_LEN (sizeof(DELIMITER) - 1)
#define MAC_LEN 32
_Static_assert(2 * MAC_LEN == WIRE_HEX_LEN, "a digest is two hex digits a byte");

static int mac_new(const char *key, size_t len, void **ret)
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC *mac;
	EVP_MAC_CTX *ctx;

	if (len > WIRE_KEY_MAX)
		return -EINVAL;
	if (len == 0) {
		*ret = NULL;
		return 0;
	}
	mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
	EVP_MAC_free(mac);
	if (!ctx || !EVP_MAC_init(ctx, (const unsigned char *)key, len, params)) {
		EVP_MAC_CTX_free(ctx);
		return -ENOMEM;
	}
	*ret = ctx;
	return 0;
}

int wire_signer_init(struct wire_signer *s, const char *key, size_t len)
{
	void *mac;
	int err = mac_new(key, len, &mac);

	if (err)
		return err;
	*s = (struct wire_signer){ .mac = mac };
	return 0;
}

void wire_signer_free(struct wire_signer *s)
{
	EVP_MAC_CTX_free(s->mac);
	*s = (struct wire_signer){ 0 };
}

static int sign(EVP_MAC_CTX *mac, const struct slice part[WIRE_PARTS], char hex[WIRE_HEX_LEN])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char sum[MAC_LEN];
	size_t n = 0;
	int i;

	/* Without a key the context starts again with the one it has. */
	if (!EVP_MAC_init(mac, NULL, 0, NULL))
		return -EIO;
	for (i = 0; i < WIRE_PARTS; i++) {
		if (!EVP_MAC_update(mac, part[i].data, part[i].len))
			return -EIO;
	}
	if (!EVP_MAC_final(mac, sum, &n, sizeof(sum)) || n != sizeof(sum))
		return -EIO;
	for (i = 0; i < MAC_LEN; i++) {
		hex[2 * i] = digits[sum[i] >> 4];
		hex[2 * i + 1] = digits[sum[i] & 15];
	}
	return 0;
}

static int verify(void *mac, const struct slice *signature, const struct slice part[WIRE_PARTS])
{
	char hex[WIRE_HEX_LEN];
	int err;

	if (!mac)
		return 0;
	if (signature->len != WIRE_HEX_LEN)
		return -EACCES;
	err = sign(mac, part, hex);
	if (err)
		return err;
	return CRYPTO_memcmp(hex, signature->data, WIRE_HEX_LEN) == 0 ? 0 : -EACCES;
}

static size_t find_delimiter(const struct slice *frames, size_t n)
{
	size_t i;

	for (i = 0; i < n && i <= WIRE_IDENTS_MAX; i++) {
		if (frames[i].len == DELIMITER_LEN && !memcmp(frames[i].data, DELIMITER, DELIMITER_LEN))
			return i;
	}
	return n;
}

int wire_parse(struct wire_signer *s, const struct slice *frames, size_t n, struct wire_view *ret)
{
	size_t at = find_delimiter(frames, n);
	struct wire_view v = { .idents = frames, .n_idents = at };
	int i, err;

	if (n > WIRE_FRAMES_MAX)
		return -E2BIG;
	if (at == n || n - at < 2 + WIRE_PARTS)
		return -EBADMSG;
	for (i = 0; i < WIRE_PARTS; i++)
		v.part[i] = frames[at + 2 + (size_t)i];
	v.buffers = frames + at + 2 + WIRE_PARTS;
	v.n_buffers = n - at - 2 - WIRE_PARTS;
	if (v.n_buffers > WIRE_BUFFERS_MAX)
		return -E2BIG;
	err = verify(s->mac, &frames[at + 1], v.part);
	if (err)
		return err;
	*ret = v;
	return 0;
}

int wire_pack(struct wire_signer *s, const struct slice *idents, size_t n_idents,
	      const struct slice part[WIRE_PARTS], const struct slice *buffers, size_t n_buffers,
	      struct wire_packed *ret)
{
	size_t i, n = 0;
	int err;

	if (n_idents > WIRE_IDENTS_MAX || n_buffers > WIRE_BUFFERS_MAX)
		return -E2BIG;
	if (s->mac) {
		err = sign(s->mac, part, ret->hex);
		if (err)
			return err;
	}
	ret->hex[WIRE_HEX_LEN] = '\0';
	for (i = 0; i < n_idents; i++)
		ret->frame[n++] = idents[i];
	ret->frame[n++] = (struct slice){ DELIMITER, DELIMITER_LEN };
	ret->frame[n++] = (struct slice){ ret->hex, s->mac ? WIRE_HEX_LEN : 0 };
	for (i = 0; i < WIRE_PARTS; i++)
		ret->frame[n++] = part[i];
	for (i = 0; i < n_buffers; i++)
		ret->frame[n++] = buffers[i];
	ret->n = n;
	return 0;
}
