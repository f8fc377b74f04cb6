/* Consistent Overhead Byte Stuffing: records without a zero byte, ended by one.
 *
 * A reader that starts in the middle, or lost bytes, is in step again at the
 * next 0x00. Records are at most LINK_RECORD_MAX on the wire, delimiter
 * included; what is longer is skipped to its delimiter. No allocation, no I/O.
 */
#ifndef CARREL_LINK_COBS_H
#define CARREL_LINK_COBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"

/* Most bytes that n bytes take on the wire, delimiter included. */
#define COBS_BOUND(n) ((n) + (n) / 254 + 2)

/* Encodes len bytes and the delimiter. out holds COBS_BOUND(len) bytes and does
 * not overlap in. Returns the bytes written. */
size_t cobs_encode(const uint8_t *in, size_t len, uint8_t *out);

/* Zero-initialise. */
struct cobs_decoder {
	uint8_t buf[LINK_RECORD_MAX];
	size_t len;
	bool skip; /* the record grew too long: ignore up to its delimiter */
};

/* Takes bytes up to one delimiter at most and returns how many it took (all of
 * them when no record is complete). *ret_len is the length of the record that
 * became complete and *ret its bytes, valid until the next call; 0 when there
 * is none, or it was empty, too long or malformed. */
size_t cobs_decode(struct cobs_decoder *d, const uint8_t *bytes, size_t len, const uint8_t **ret,
		   size_t *ret_len);

#endif
