/* Bash as a language of the core.
 *
 * A cell's status is that of its last command. Not zero, it is an error: ename
 * "ExitStatus", evalue the number, so that a run of all cells stops there. Where
 * set -e ends a cell, or set -u (the cell is then read whole), the shell lives on.
 * A shell that ended itself (exit, kill) is replaced by a new one in the same
 * cell, which says so on standard error. After an exit, unless the user's own trap
 * on EXIT took the place of ours, the new one has its variables, functions, aliases,
 * options and directory, not its jobs, descriptors and traps. exit 0 is no error,
 * another number is ExitStatus, a signal is "ShellDied". Interrupted:
 * "KeyboardInterrupt".
 *
 * Output of background jobs belongs to the cell that was started last. The
 * client is asked for input by `read` alone; other programs find the answers
 * given so far, then the end of their standard input.
 */
#ifndef CARREL_BASH_LANG_H
#define CARREL_BASH_LANG_H

#include <jansson.h>
#include "bash/display.h"
#include "bash/history.h"
#include "bash/shell.h"
#include "core/lang.h"

enum {
	/* Bytes of what an inspection or a page shows. */
	INSPECT_MAX = 64 * 1024,
};

struct bash {
	struct bash_shell shell;
	struct history history;
	struct display display;
	int count; /* of the last cell that was counted */
	char version[32];
	json_t *given;  /* the environment the host gave last */
	char lost[300]; /* a sentence about a shell that ended, for the next who runs a cell */
};

extern const struct lang_ops bash_lang_ops;

/* ---- between its files ---- */

json_t *bash_execute(void *lang, struct core *c, const struct request *r);
json_t *bash_complete(void *lang, struct core *c, const struct request *r);
json_t *bash_inspect(void *lang, struct core *c, const struct request *r);
json_t *bash_is_complete(void *lang, struct core *c, const struct request *r);

/* The shell, started if there is none any more. -errno with a sentence in why. */
int bash_need_shell(struct bash *b, char *why, size_t why_size);
/* One in the place of another that ended so (NULL: the first). */
int bash_new_shell(struct bash *b, const struct bash_shell_end *end, char *why, size_t why_size);
/* Run text in the shell as the kernel's own, and take what it prints by
 * `printf 'X…\0' >|"$__carrel_up"`, at most RECORD_MAX bytes. NULL: nothing came.
 * The caller frees it. */
char *bash_ask_shell(struct bash *b, const char *text);
/* What is known of a name, or NULL. The caller frees it. */
char *bash_describe(struct bash *b, const char *name, bool whole);
/* A request's text and its cursor as an offset in bytes, within it. NULL: there is no text. */
const char *bash_request_code(const struct request *r, size_t *ret_cursor);
/* Characters in the first n bytes of UTF-8. */
json_int_t bash_characters(const char *text, size_t n);
json_t *bash_error(const char *ename, const char *evalue);

#endif
