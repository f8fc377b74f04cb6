/* A log file of bounded size that keeps the end: once it holds KEEPER_LOG_MAX
 * bytes the first half is dropped. Write errors (a full disk) lose text, never
 * the sandbox. */
#ifndef CARREL_KEEPER_LOG_H
#define CARREL_KEEPER_LOG_H

#include <stddef.h>

struct log {
	int fd; /* the caller's */
	size_t size;
};

void log_append(struct log *log, const char *bytes, size_t n);
/* The last line with text in it, printable ASCII only; "" when there is none. */
void log_last_line(const struct log *log, char *ret, size_t size);

#endif
