/* Clocks in the forms the REST face shows, and UUIDs for those who insist on them
 * (Jupyter kernels, boot ids). */
#ifndef CARREL_TIMES_H
#define CARREL_TIMES_H

#include <stddef.h>
#include <stdint.h>

enum { UUID_SIZE = 40, TIME_SIZE = 32 };

/* Random UUID, version 4, lower case. */
void uuid_new(char ret[UUID_SIZE]);
/* The UUID that belongs to a name: the same for the same name. */
void uuid_of(const char *name, char ret[UUID_SIZE]);

int64_t unix_ms(void);
int64_t unix_ns(void);
int64_t mono_ms(void);
uint64_t boottime_ns(void);
/* A deadline in Unix milliseconds on CLOCK_BOOTTIME; 0 stays 0. */
uint64_t boottime_of_unix_ms(int64_t ms);
/* RFC 3339, UTC, milliseconds. */
void time_format(int64_t ms, char ret[TIME_SIZE]);
/* The inverse for what time_format() wrote. 0, or -EINVAL. */
int time_parse(const char *text, int64_t *ret_ms);

#endif
