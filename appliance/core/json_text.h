/* Text as JSON strings, both ways, for what comes in megabytes: a flood of output costs the hub mostly this. Everything
 * else of JSON is the library's, and so is a string with anything unusual in it. The fuzzer of messages holds both to
 * what the library makes of the same bytes. RFC 8259 section 7.
 */
#ifndef CARREL_JSON_TEXT_H
#define CARREL_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

/* The string of valid UTF-8, with its quotation marks, in ASCII. */
void json_text_write(struct buf *b, const char *text, size_t len);

/* A string at *at, decoded; *at is behind it then. The text is the caller's to free and has a NUL behind its end.
 * NULL: no string, or one for the library: not UTF-8, a control character as it stands, or an escaped one that is no
 * single ASCII character. */
char *json_text_read(const char **at, const char *end, size_t *ret_len);

#endif
