/* Base64 with or without line breaks. */
#ifndef CARREL_COMMAND_BASE64_H
#define CARREL_COMMAND_BASE64_H

#include <stddef.h>

/* Allocated; NULL: not base64, or out of memory. */
char *base64_decode(const char *text, size_t *ret_len);

#endif
