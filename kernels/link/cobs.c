#include "cobs.h"

#include <string.h>

enum {
	COBS_BLOCK_MAX = 254,
	/* Below it a loop is faster than a call. */
	COBS_SHORT = 16,
};

/* Whether one of the eight bytes is zero. */
static bool word_has_zero(uint64_t w)
{
	return (w - 0x0101010101010101u) & ~w & 0x8080808080808080u;
}

size_t cobs_encode(const uint8_t *in, size_t len, uint8_t *out)
{
	const uint8_t *end = in + len;
	uint8_t *code = out, *o = out + 1;

	for (;;) {
		/* By words through long runs, by bytes through short ones: neither text
		 * nor an array of zeros is slow. */
		while (end - in >= 8 && o - code <= COBS_BLOCK_MAX + 1 - 8) {
			uint64_t w;

			memcpy(&w, in, sizeof(w));
			if (word_has_zero(w))
				break;
			memcpy(o, &w, sizeof(w));
			o += sizeof(w);
			in += sizeof(w);
		}
		while (in < end && *in && o - code <= COBS_BLOCK_MAX)
			*o++ = *in++;
		*code = (uint8_t)(o - code);
		if (in == end)
			break;
		/* A full block stands for no zero of its own. */
		if (*code <= COBS_BLOCK_MAX)
			in++;
		code = o++;
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
		if (n >= COBS_SHORT) {
			memmove(o, in + i, n);
			o += n;
			i += n;
		} else {
			while (n--)
				*o++ = in[i++];
		}
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

size_t cobs_decode(struct cobs_decoder *d, const uint8_t *bytes, size_t len, const uint8_t **ret,
		   size_t *ret_len)
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
