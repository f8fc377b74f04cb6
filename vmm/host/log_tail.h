/* The last line of a sandbox's log file, for a message to a person. The text
 * is foreign: bounded, and printable ASCII only. */
#ifndef CARREL_LOG_TAIL_H
#define CARREL_LOG_TAIL_H

#include <stddef.h>

/* 0 or a negative errno; "" when the file holds no text. */
int log_tail_line(const char *run_dir, const char *id, const char *file, char *ret, size_t size);

/* From the first word in the file's last 16 KiB to the end of its line; -ENOENT where there is none. */
int log_tail_from(const char *run_dir, const char *id, const char *file, const char *word, char *ret, size_t size);

#endif
