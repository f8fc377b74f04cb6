/* What a language gives the core. All are called on the main thread, and on the
 * threads of subshells when it has thread_begin.
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

	/* ---- those may be NULL ---- */

	/* comm_open, comm_msg, comm_close: no reply, NULL is returned. NULL: no
	 * target is known, and what is opened is closed. */
	json_t *(*comm)(void *lang, struct core *c, const struct request *r);
	json_t *(*comm_info)(void *lang, struct core *c, const struct request *r);
	/* Nothing is asked: go on with what runs in the background until
	 * core.wake_fd or the shell socket is readable. False: there is nothing. */
	bool (*idle)(void *lang, struct core *c);
	/* The calling thread begins and ends to serve a subshell. False: it cannot. */
	bool (*thread_begin)(void *lang, const char *subshell_id);
	void (*thread_end)(void *lang);
};

#endif
