#include "bash/quote.h"

#include <stdbool.h>
#include <string.h>

void quote_put(struct buf *out, const char *text, size_t n)
{
	buf_puts(out, "'");
	quote_put_in(out, text, n, '\'');
	buf_puts(out, "'");
}

static bool is_special(char c, char style)
{
	if (style == '"')
		return strchr("\"\\$`", c) != NULL;
	return strchr(" \t\"'\\$`&|;<>()[]{}*?!#~=", c) != NULL;
}

void quote_put_in(struct buf *out, const char *text, size_t n, char style)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (style == '\'' && text[i] == '\'') {
			buf_puts(out, "'\\''");
			continue;
		}
		/* A backslash before a line end would take both away. */
		if (style == 0 && text[i] == '\n') {
			buf_puts(out, "$'\\n'");
			continue;
		}
		if (style != '\'' && text[i] && is_special(text[i], style))
			buf_puts(out, "\\");
		buf_put(out, text + i, 1);
	}
}
