/* Text as one word of bash. */
#ifndef CARREL_BASH_QUOTE_H
#define CARREL_BASH_QUOTE_H

#include <stddef.h>
#include "core/buf.h"

/* In single quotes, which keep every byte but NUL as it is. */
void quote_put(struct buf *out, const char *text, size_t n);
/* Continue a word that is in style: 0 bare, '\'' or '"' after that opening quote. */
void quote_put_in(struct buf *out, const char *text, size_t n, char style);

#endif
