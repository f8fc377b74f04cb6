#include "cobs.h"

#include <string.h>

enum { COBS_BLOCK_MAX = 254 };

size_t cobs_encode(const uint8_t *in, size_t len, uint8_t *out)
{
	uint8_t *o = out;

	for (;;) {
		size_t span = len < COBS_BLOCK_MAX ? len : COBS_BLOCK_MAX;
		const uint8_t *zero = span ? memchr(in, 0, span) : NULL;
		size_t n = zero ? (size_t)(zero - in) : span;

		*o++ = (uint8_t)(n + 1);
		if (n)
			memcpy(o, in, n);
		o += n;
		in += n;
		len -= n;
		if (zero) {
			in++;
			len--;
			continue;
		}
		if (len == 0)
			break;
	}
	*o++ = 0;
	return (size_t)(o - out);
}

/* in holds no zero. out may be in itself: it never overtakes. Returns the
 * decoded length, 0 when the blocks do not fit the record. */
static size_t cobs_decode_record(const uint8_t *in, size_t len, uint8_t *out)
{
	uint8_t *o = out;
	size_t i = 0;

	while (i < len) {
		uint8_t code = in[i++];
		size_t n = code - 1u;

		if (n > len - i)
			return 0;
		memmove(o, in + i, n);
		o += n;
		i += n;
		if (code <= COBS_BLOCK_MAX && i < len)
			*o++ = 0;
	}
	return (size_t)(o - out);
}

/* Keeps part of a record; one that leaves no room for its delimiter is given up. */
static void cobs_keep(struct cobs_decoder *d, const uint8_t *bytes, size_t len)
{
	if (d->skip || len == 0)
		return;
	if (len > sizeof(d->buf) - 1 - d->len) {
		d->skip = true;
		d->len = 0;
		return;
	}
	memcpy(d->buf + d->len, bytes, len);
	d->len += len;
}

size_t cobs_decode(struct cobs_decoder *d, const uint8_t *bytes, size_t len, const uint8_t **ret, size_t *ret_len)
{
	const uint8_t *end = len ? memchr(bytes, 0, len) : NULL;
	size_t part = end ? (size_t)(end - bytes) : len;

	*ret = d->buf;
	*ret_len = 0;
	if (!end) {
		cobs_keep(d, bytes, part);
		return len;
	}
	if (d->len == 0 && !d->skip && part < sizeof(d->buf)) {
		*ret_len = cobs_decode_record(bytes, part, d->buf);
	} else {
		cobs_keep(d, bytes, part);
		if (!d->skip)
			*ret_len = cobs_decode_record(d->buf, d->len, d->buf);
	}
	d->len = 0;
	d->skip = false;
	return part + 1;
}
