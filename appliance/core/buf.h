/* A growing byte buffer. Out of memory is remembered in .failed: appends turn
 * into nothing and the owner checks once at the end. */
#ifndef CARREL_BUF_H
#define CARREL_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *bytes;
	size_t len, size;
	bool failed;
};

void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_add_str(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Percent-encodes everything but unreserved characters. */
void buf_add_url(struct buf *b, const char *text);
/* Room for n more bytes at bytes + len, or NULL. */
char *buf_room(struct buf *b, size_t n);
void buf_free(struct buf *b);

#endif
