/* Times as clients write them. Pure. */
#ifndef CARREL_FRONT_RFC3339_H
#define CARREL_FRONT_RFC3339_H

#include <stdint.h>

/* RFC 3339, as in 2027-01-31T23:59:59.250Z or +02:00, to Unix milliseconds. 0 or -EINVAL. */
int rfc3339_parse(const char *text, int64_t *ret_ms);
enum { RFC3339_SIZE = 32 };
/* As the REST face writes them: UTC, milliseconds. */
void rfc3339_format(int64_t ms, char ret[RFC3339_SIZE]);

#endif
