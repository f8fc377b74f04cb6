/* Times as a person gives them: a span from now, or the time itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"

enum { MOMENT_DAYS_MAX = 36500 }; /* a typing error of more digits is one */

int moment_text(struct command *c, const char *option, const char *text, int sign, char *ret, size_t size)
{
	static const struct {
		char unit;
		long s;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	size_t digits = strspn(text, "0123456789");
	long long number;
	time_t at;
	struct tm tm;

	if (digits == 0 || digits > 10 || text[digits] == '\0' || text[digits + 1] != '\0') {
		if (!strchr(text, 'T'))
			return misused(c,
				       "%s takes a span like 12h or 30d, or a time like "
				       "2030-01-31T12:00:00Z, not \"%s\"",
				       option, text);
		snprintf(ret, size, "%s", text);
		return EXIT_OK;
	}
	number = strtoll(text, NULL, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (units[i].unit != text[digits])
			continue;
		if (number > (long long)MOMENT_DAYS_MAX * 86400 / units[i].s)
			return misused(c, "%s takes at most %d days", option, MOMENT_DAYS_MAX);
		at = time(NULL) + sign * number * units[i].s;
		gmtime_r(&at, &tm);
		strftime(ret, size, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
		return EXIT_OK;
	}
	return misused(c, "%s counts in s, m, h or d, not in %c", option, text[digits]);
}

int span_option(struct command *c, struct span *span, int opt, const char *text)
{
	return opt == 's' ? moment_text(c, "--since", text, -1, span->since, sizeof(span->since)) :
			    moment_text(c, "--until", text, -1, span->until, sizeof(span->until));
}

void span_query(char **path, const struct span *span)
{
	http_query(path, "since", span->since[0] ? span->since : NULL);
	http_query(path, "until", span->until[0] ? span->until : NULL);
}
