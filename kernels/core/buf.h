/* A growable byte buffer, with what building JSON text needs.
 *
 * A failed allocation is sticky: later appends do nothing and `failed` stays
 * true, so a builder checks once at its end. buf_free() makes it empty again.
 */
#ifndef CARREL_BUF_H
#define CARREL_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data;
	size_t len;
	size_t cap;
	bool failed;
};

void buf_free(struct buf *b);
/* Room for n more bytes at data + len; NULL when memory is out. */
char *buf_room(struct buf *b, size_t n);
void buf_put(struct buf *b, const void *data, size_t n);
void buf_puts(struct buf *b, const char *s);
/* Append valid UTF-8 as the inside of a JSON string: quotes, backslashes and
 * control characters escaped. */
void buf_json_escape(struct buf *b, const char *s, size_t n);

static inline void buf_cleanup(struct buf *b)
{
	buf_free(b);
}
#define BUF_AUTO __attribute__((cleanup(buf_cleanup))) struct buf

#endif
