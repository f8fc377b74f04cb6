/* Records from the shell: text ended by a NUL byte, cut anywhere on its way.
 *
 * The pipe's name is no secret to the user's code, so anything may come: what is
 * longer than RECORD_MAX is left out up to its end, the rest is for the reader
 * of a record to judge.
 */
#ifndef CARREL_BASH_RECORD_H
#define CARREL_BASH_RECORD_H

#include <stdbool.h>
#include "core/buf.h"

enum {
	/* The names of every command of a large system are some 100 KB. */
	RECORD_MAX = 4 * 1024 * 1024,
	/* Fields of a record that has some. */
	RECORD_FIELDS_MAX = 5,
};

struct record_reader {
	struct buf text;
	bool skipping; /* the rest of a record that is too long */
};

/* Calls take for each record that ends in data, without its NUL; the text is
 * NUL-terminated and writable. */
void record_feed(struct record_reader *r, const char *data, size_t n,
		 void (*take)(void *arg, char *text, size_t len), void *arg);
/* What came of a record so far is of no more use. */
void record_reset(struct record_reader *r);
/* Cut text at \x1f into at most n fields, the last with all the rest, where \x1e
 * stands for a line's end. Returns how many there are. */
size_t record_split(char *text, char **fields, size_t n);

#endif
