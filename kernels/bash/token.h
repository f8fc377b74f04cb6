/* What stands at the cursor of a text in bash: for completion and help.
 *
 * The text is only read. It is the beginning of what a user types, so anything may
 * be unfinished; bodies of here-documents are read as commands.
 */
#ifndef CARREL_BASH_TOKEN_H
#define CARREL_BASH_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include "core/buf.h"

enum {
	/* $( within $( …: deeper ones complete nothing. */
	TOKEN_DEPTH_MAX = 64,
};

enum token_kind {
	TOKEN_NONE,     /* in a comment, too deep, or what only running it would tell */
	TOKEN_COMMAND,  /* the first word of a command */
	TOKEN_FILE,     /* any other word */
	TOKEN_VARIABLE, /* after $ */
	TOKEN_BRACED,   /* after ${ */
};

struct token {
	enum token_kind kind;
	size_t start;    /* offset of what a match takes the place of, its $ or opening quote included */
	char quote;      /* the quote that is open at the cursor, or 0 */
	bool tilde;      /* the word begins with a bare ~ */
	struct buf word; /* its text without quoting, NUL-terminated */
};

/* The token that ends at offset cursor. token_free() it, also after -ENOMEM. */
int token_at(const char *code, size_t cursor, struct token *ret);
void token_free(struct token *t);

#endif
