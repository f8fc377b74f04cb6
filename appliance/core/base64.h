/* Base64 (RFC 4648) of bytes that cross the link as JSON. */
#ifndef CARREL_BASE64_H
#define CARREL_BASE64_H

#include <stddef.h>

/* Allocated, NUL-ended; NULL: out of memory. */
char *base64_encode(const void *bytes, size_t len);
/* Allocated; white space is skipped. NULL: not base64, or out of memory. */
char *base64_decode(const char *text, size_t len, size_t *ret_len);

#endif
