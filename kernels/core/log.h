/* One line of trouble to the saved standard error, where the one who started
 * the kernel reads it; descriptor 2 belongs to the user's code. */
#ifndef CARREL_LOG_H
#define CARREL_LOG_H

/* Descriptor to write to; 2 until it is set. */
void log_set_fd(int fd);
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
