/* The records of the link, from their bytes and back: see link.h for what they
 * mean. Pure functions on decoded records; COBS is cobs.h's.
 */
#ifndef CARREL_LINK_RECORD_H
#define CARREL_LINK_RECORD_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cobs.h"
#include "limits.h"

enum {
	LINK_VERSION = 1,
	LINK_NONCE = 16,
	LINK_TAG = 4, /* the last bytes of the nonce */
};

enum record_kind {
	RECORD_HELLO = 'h',
	RECORD_ACK = 'a',
	RECORD_DATA = 'd',
	RECORD_RESET = 'r',
};

struct record_hello { /* and HELLO_ACK */
	uint8_t kind, version, nonce[LINK_NONCE];
};
static_assert(sizeof(struct record_hello) == 18, "wire");

struct record_reset {
	uint8_t kind, tag[LINK_TAG];
};
static_assert(sizeof(struct record_reset) == 5, "wire");

/* Before and behind the bytes of DATA. The number stands at both ends so that
 * the head of one record glued to the tail of another is seen as such. */
struct record_data_head {
	uint8_t kind, tag[LINK_TAG], number[4], len[2];
};
static_assert(sizeof(struct record_data_head) == 11, "wire");
struct record_data_tail {
	uint8_t number[4];
};
static_assert(sizeof(struct record_data_tail) == 4, "wire");

enum {
	/* Longest decoded record whose encoding surely fits LINK_RECORD_MAX. */
	RECORD_PLAIN_MAX = LINK_RECORD_MAX - LINK_RECORD_MAX / 254 - 2,
	RECORD_DATA_MAX = RECORD_PLAIN_MAX - (int)sizeof(struct record_data_head) -
			  (int)sizeof(struct record_data_tail),
};
static_assert(COBS_BOUND(RECORD_PLAIN_MAX) <= LINK_RECORD_MAX, "a full record fits");
static_assert(RECORD_DATA_MAX <= UINT16_MAX, "the length fits its field");

/* The tag of a nonce's session. */
static inline const uint8_t *record_tag(const uint8_t *nonce)
{
	return nonce + LINK_NONCE - LINK_TAG;
}

/* Writes head and tail around len bytes that stand at plain + sizeof(head).
 * Returns the record's length. */
size_t record_data_seal(uint8_t *plain, size_t len, const uint8_t *tag, uint32_t number);

struct record_data {
	const uint8_t *tag;
	uint32_t number;
	const uint8_t *bytes; /* into the record */
	size_t len;
};
/* False when the record is not a whole DATA record. */
bool record_data_parse(const uint8_t *record, size_t len, struct record_data *ret);

/* NULL when it is not a whole HELLO or HELLO_ACK, RESET. */
const struct record_hello *record_hello_parse(const uint8_t *record, size_t len);
const struct record_reset *record_reset_parse(const uint8_t *record, size_t len);

#endif
