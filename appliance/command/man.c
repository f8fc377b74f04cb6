#include "man.h"

#include <string.h>

#include "command.h"

static const char description[] =
	"carrel runs code in sandboxes of a Carrel appliance: each is a machine of its own, with its own\n"
	"kernel and files and without a network. Output appears as it comes.\n";

/* A character that is not ASCII, as \[uXXXX]; its length in UTF-8. */
static size_t print_wide(FILE *to, const char *at)
{
	const unsigned char *c = (const unsigned char *)at;
	size_t len = *c >= 0xf0 ? 4 : *c >= 0xe0 ? 3 : 2;
	unsigned long code = *c & (0xff >> (len + 1));

	for (size_t i = 1; i < len; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return i;
		code = code << 6 | (c[i] & 0x3f);
	}
	fprintf(to, "\\[u%04lX]", code);
	return len;
}

/* Text as it is: what roff would read as a request or an escape is made harmless. */
static void print_text(FILE *to, const char *text, size_t len)
{
	const char *end = text + len;
	bool line_start = true;

	while (text < end) {
		if (line_start && (*text == '.' || *text == '\''))
			fputs("\\&", to);
		line_start = *text == '\n';
		if ((unsigned char)*text >= 0x80) {
			text += print_wide(to, text);
			continue;
		}
		if (*text == '\\')
			fputs("\\e", to);
		else if (*text == '-')
			fputs("\\-", to);
		else if (*text == '\'')
			fputs("\\(aq", to);
		else if (*text == '`')
			fputs("\\(ga", to);
		else if (*text == '^')
			fputs("\\(ha", to);
		else if (*text == '~')
			fputs("\\(ti", to);
		else
			fputc(*text, to);
		text++;
	}
}

static void print_all(FILE *to, const char *text)
{
	print_text(to, text, strlen(text));
}

/* Lines that keep their columns. */
static void print_block(FILE *to, const char *text)
{
	fputs(".nf\n", to);
	print_all(to, text);
	fputs(text[strlen(text) - 1] == '\n' ? ".fi\n" : "\n.fi\n", to);
}

static void print_verb(FILE *to, const struct verb *verb)
{
	size_t summary = strcspn(verb->help, "\n");
	const char *rest = verb->help + summary + strspn(verb->help + summary, "\n");

	fprintf(to, ".SS carrel %s\n.B carrel %s\n", verb->name, verb->name);
	print_all(to, verb->usage);
	fputs("\n.PP\nTo ", to);
	print_text(to, verb->help, summary);
	fputs(".\n", to);
	if (*rest) {
		fputs(".PP\n", to);
		print_block(to, rest);
	}
}

void man_print(FILE *to)
{
	fputs(".TH CARREL 1 \"\" \"Carrel\" \"User Commands\"\n.SH NAME\ncarrel \\- run code in sandboxes of "
	      "a "
	      "Carrel appliance\n.SH SYNOPSIS\n.B carrel\n[\\-\\-json] VERB ...\n.SH DESCRIPTION\n",
	      to);
	print_all(to, description);
	fputs(".PP\n", to);
	print_all(to, help_where);
	fputs(".PP\nWith \\-\\-json, before or behind the verb, its answer is JSON on stdout, and a failure "
	      "{\"code\",\"message\"} on stderr.\n.SH VERBS\n",
	      to);
	for (int i = 0; verbs[i]; i++)
		print_verb(to, verbs[i]);
	fputs(".SH EXIT STATUS\n", to);
	print_block(to, help_codes);
	fputs(".SH ENVIRONMENT\n.TP\nCARREL_URL\nAddress of the appliance.\n.TP\nCARREL_TOKEN\nA key of "
	      "yours.\n.TP\nCARREL_CONF\nConfiguration file in place of "
	      "/etc/carrel/carrel.conf.\n.TP\nSTATE, "
	      "CARREL_CACHE\nDirectories of a local appliance.\n.SH FILES\n.TP\n/etc/carrel/carrel.conf\n"
	      "Lines URL=... and TOKEN=...\n.TP\n$STATE/url, $STATE/token\nWritten by a local appliance.\n",
	      to);
}
