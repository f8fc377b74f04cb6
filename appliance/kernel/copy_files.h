/* The notebook's folder in the sandbox: copied in at the start, what cells changed
 * copied back.
 *
 * Regular files only, no hidden ones, in at most COPY_DEPTH levels. A file that
 * changed on both sides since it was last copied is not overwritten here: the
 * sandbox's comes beside it. Blocking; one call at a time.
 */
#ifndef CARREL_COPY_FILES_H
#define CARREL_COPY_FILES_H

#include <stddef.h>

#include "../command/http.h"

enum {
	COPY_BYTES_MAX = 64 * 1024 * 1024, /* in all; past it nothing is copied in */
	COPY_FILES_MAX = 10000,
	COPY_DEPTH = 8,
};

struct copy_files;

/* directory is borrowed. NULL: out of memory. */
struct copy_files *copy_files_new(const char *directory);
void copy_files_free(struct copy_files *c);
/* Everything in. 0; -EFBIG: more than the bounds, nothing is copied, also not back; else a negative errno.
 * The sentence is for the user. */
int copy_files_in(struct copy_files *c, struct http *h, const char *sandbox_id, char *why, size_t size);
/* What changed there since. */
int copy_files_back(struct copy_files *c, struct http *h, const char *sandbox_id, char *why, size_t size);

#endif
