/* Bytes of a stream, cut anywhere, to whole valid characters.
 *
 * A character cut by the end of one read is kept and joined with the next.
 * What is not UTF-8 (wrong, overlong, surrogate, past U+10FFFF) becomes U+FFFD,
 * one for each maximal part of a character that could have been one, as
 * Python's "replace" does.
 */
#ifndef CARREL_UTF8_H
#define CARREL_UTF8_H

#include "core/buf.h"

struct utf8_stream {
	unsigned char tail[4]; /* the beginning of a cut character */
	unsigned char n;
};

/* Append the characters of the kept tail and of in as valid UTF-8. */
void utf8_feed(struct utf8_stream *u, const char *in, size_t n, struct buf *out);
/* The stream ends or changes its owner: a kept tail becomes U+FFFD. */
void utf8_end(struct utf8_stream *u, struct buf *out);

#endif
