/* NDJSON as it comes: pieces of bytes in, one JSON object out at a time. */
#ifndef CARREL_LINES_H
#define CARREL_LINES_H

#include <jansson.h>

enum { LINE_MAX_BYTES = 1024 * 1024 }; /* one event, reference v1 */

struct lines {
	char *part; /* the beginning of a line whose end has not come */
	size_t len, size;
	/* One object, borrowed, and its text; nonzero stops. */
	int (*each)(json_t *event, const char *text, size_t len, void *arg);
	void *arg;
};

/* 0; what each() gave; -EMSGSIZE: a line past LINE_MAX_BYTES; -EBADMSG: no JSON object; -ENOMEM. */
int lines_feed(struct lines *l, const char *bytes, size_t len);
void lines_free(struct lines *l);

#endif
