/* Starting the Python interpreter inside this program. */
#ifndef CARREL_EMBED_H
#define CARREL_EMBED_H

#include "python/lang.h"

/* Start Python as /usr/bin/python3 would and make a carrel_kernel.Kernel. The
 * caller holds the interpreter's lock afterwards. prepared: for a parent that
 * warms up and forks. -errno with a sentence in why. */
int embed_start(struct python *py, bool prepared, char *why, size_t why_size);

#endif
