/* The images that sandboxes run, by name and by hash. A template built here is
 * $STATE/templates/NAME with a file `image` in it, the hash of its newest one; what it
 * is replaced with is used from the next sandbox on. Beside them is the default one.
 *
 * Once opened an image stays open for the core's life. Hub thread only (or before it
 * runs), but for images_list(), images_row() and images_each().
 */
#ifndef CARREL_IMAGES_H
#define CARREL_IMAGES_H

#include "core_inner.h"

enum {
	IMAGES_MAX = 1000, /* templates that are listed */
	IMAGE_NAME_SIZE = sizeof(((struct image *)NULL)->template_name),
};

/* What the name means now. NULL and a sentence: there is none, or its image cannot be opened. */
struct image *images_named(struct core *c, const char *name, struct fault *f);
/* The one a sandbox was made of; the default where that is gone from the cache. */
struct image *images_hashed(struct core *c, const char *hash);
/* Lets go of those that were removed from the cache and that nothing runs any more, with their warm snapshots. */
void images_sweep(struct core *c);
void images_close(struct core *c);
/* The class of sandboxes that ask for no limits. */
void image_class(const struct image *image, struct vm_class *ret);
/* Limits that are 0 become the recipe's. */
void image_limits(const struct image *image, struct limits *limits);
/* {"templates":[…],"next"} of those behind the name `after` (NULL: from the first), by name, as the REST face
 * shows them. NULL: out of memory. Any thread. */
json_t *images_list(const struct core *c, const char *after, unsigned limit);
/* One of them; NULL: there is none. Any thread. */
json_t *images_row(const struct core *c, const char *name);
/* Calls for each template that was built here and is not the default. Any thread. */
void images_each(const struct core *c, void (*call)(const char *name, void *arg), void *arg);

#endif
