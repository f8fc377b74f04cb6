/* The last line of a log, for a message to a person. The text is foreign. */
#ifndef CARREL_LAST_LINE_H
#define CARREL_LAST_LINE_H

#include <stddef.h>

enum { LAST_LINE_SPAN = 1024 }; /* of a log's end: enough for any line worth quoting */

/* The last line with text in span, printable ASCII only; "" when there is none. */
static inline void last_line(const char *span, size_t n, char *ret, size_t size)
{
	size_t start, used = 0;

	while (n > 0 && (span[n - 1] == '\n' || span[n - 1] == '\r' || span[n - 1] == ' '))
		n--;
	for (start = n; start > 0 && span[start - 1] != '\n'; start--)
		;
	for (; start < n && used < size - 1; start++)
		ret[used++] = span[start] >= ' ' && span[start] <= '~' ? span[start] : '?';
	ret[used] = '\0';
}

#endif
