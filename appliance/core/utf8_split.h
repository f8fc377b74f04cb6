/* A stream of bytes, piece by piece, as text where it is UTF-8: characters that
 * a piece's end cuts wait for the next piece. */
#ifndef CARREL_UTF8_SPLIT_H
#define CARREL_UTF8_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

struct utf8_split {
	char held[4];
	size_t held_len;
};

/* Bytes of text that are whole, valid UTF-8 from their start; the rest is an
 * unfinished character (at most 3 bytes) or not UTF-8. */
size_t utf8_valid(const char *text, size_t len);
/* True when the n bytes at text may be the beginning of a character. */
bool utf8_may_continue(const char *text, size_t n);

#endif
