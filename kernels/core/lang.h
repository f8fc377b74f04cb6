/* What a language gives the core. All are called on the main thread.
 *
 * Each op that returns json_t * returns the content of the reply, a new
 * reference, status included, whatever happened; NULL only when memory is out.
 */
#ifndef CARREL_LANG_H
#define CARREL_LANG_H

#include <stdbool.h>
#include <jansson.h>

struct core;
struct request;

struct lang_ops {
	/* Called once, before the first request; the core keeps the text. */
	json_t *(*kernel_info)(void *lang);
	/* Also publishes execute_input. Brackets the user's code by core_interruptible(). */
	json_t *(*execute)(void *lang, struct core *c, const struct request *r);
	json_t *(*complete)(void *lang, struct core *c, const struct request *r);
	json_t *(*inspect)(void *lang, struct core *c, const struct request *r);
	json_t *(*is_complete)(void *lang, struct core *c, const struct request *r);
	json_t *(*history)(void *lang, struct core *c, const struct request *r);
	/* New randomness and environment; "status" ok or error as of a reply. */
	json_t *(*identity)(void *lang, struct core *c, const struct request *r);
};

#endif
