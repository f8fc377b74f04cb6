/* What a kernel uses of the machine, for clients that show it (usage_request). */
#ifndef CARREL_USAGE_H
#define CARREL_USAGE_H

#include <jansson.h>

/* The content of a usage_reply, a new reference; NULL when memory is out. kernel_cpu
 * is percent of one CPU since the call before (0 at the first), memory is bytes. */
json_t *usage_content(void);

#endif
