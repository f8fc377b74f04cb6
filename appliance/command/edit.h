/* One line from a person at a terminal, with editing keys and the lines before.
 *
 * While a line is typed the terminal is raw; between lines it is as it was, so
 * that Ctrl-C is a signal then. Other signals end the waiting for a line (signals.h).
 */
#ifndef CARREL_EDIT_H
#define CARREL_EDIT_H

#include <stddef.h>

enum {
	EDIT_LINE_MAX = 8192,
	EDIT_HISTORY_MAX = 500,
};

struct edit {
	char *history[EDIT_HISTORY_MAX]; /* oldest first */
	size_t count;
	int signal; /* that ended the waiting, or 0 */
};

/* Allocated, without its newline; NULL: Ctrl-D, or the terminal is gone. Ctrl-C gives an empty line. */
char *edit_line(struct edit *e, const char *prompt);
/* The same from a pipe or a file, of any length up to a request's. */
char *edit_read(struct edit *e);
void edit_free(struct edit *e);

#endif
