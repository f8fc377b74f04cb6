/* Foreign text into trusted text: percent escapes and UTF-8. Pure functions. */
#ifndef CARREL_FRONT_DECODE_H
#define CARREL_FRONT_DECODE_H

#include <stdbool.h>
#include <stddef.h>

/* True for well-formed UTF-8 (no overlong form, surrogate or value past U+10FFFF). */
bool utf8_ok(const char *s, size_t len);
/* Replaces each byte that is no part of well-formed UTF-8 by '?', in place. */
void utf8_scrub(char *s);

/* Decodes in[0..len) into out, which has room for len + 1 bytes, and ends it with
 * NUL. plus: '+' is a space (query strings). 0, or -EINVAL for a broken escape,
 * an encoded NUL or what is not UTF-8. */
int percent_decode(const char *in, size_t len, bool plus, char *out, size_t *ret_len);

#endif
