/* Base64 (RFC 4648), strict: no white space, padding required. */
#ifndef CARREL_AGENT_BASE64_H
#define CARREL_AGENT_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of text, to be freed; NULL when text is not base64. */
uint8_t *base64_decode(const char *text, size_t *ret_len);
/* Text of n random bytes of the guest kernel, to be freed. */
char *base64_random(size_t n);

#endif
