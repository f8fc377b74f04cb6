#include "rfc3339.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* scanf() alone would take signs and spaces for digits. T stands for any character. */
static bool shape_ok(const char *text, const char *shape)
{
	for (; *shape; text++, shape++)
		if (*shape == 'd' ? !isdigit((unsigned char)*text) : *shape == 'T' ? !*text : *text != *shape)
			return false;
	return true;
}

/* Digits past the milliseconds are cut off. */
static const char *fraction_parse(const char *at, int64_t *ret_ms)
{
	int64_t unit = 100;

	if (!isdigit((unsigned char)*at))
		return NULL;
	for (; isdigit((unsigned char)*at); at++, unit /= 10)
		*ret_ms += (*at - '0') * unit;
	return at;
}

static int zone_parse(const char *at, int *ret_minutes)
{
	int hours, minutes;

	if (!strcmp(at, "Z") || !strcmp(at, "z")) {
		*ret_minutes = 0;
		return 0;
	}
	if ((*at != '+' && *at != '-') || !shape_ok(at + 1, "dd:dd") || at[6] != '\0' ||
	    sscanf(at + 1, "%2d:%2d", &hours, &minutes) != 2 || hours > 23 || minutes > 59)
		return -EINVAL;
	*ret_minutes = (*at == '-' ? -1 : 1) * (hours * 60 + minutes);
	return 0;
}

/* mktime() would accept a 31st of February and make it March. */
static bool date_exists(const struct tm *asked, time_t seconds)
{
	struct tm back;

	return gmtime_r(&seconds, &back) && back.tm_mon == asked->tm_mon && back.tm_mday == asked->tm_mday &&
	       back.tm_hour == asked->tm_hour && back.tm_min == asked->tm_min;
}

int rfc3339_parse(const char *text, int64_t *ret_ms)
{
	struct tm tm = { 0 };
	int64_t ms = 0;
	time_t seconds;
	char t;
	int used = 0, zone;

	if (!shape_ok(text, "dddd-dd-ddTdd:dd:dd") ||
	    sscanf(text, "%4d-%2d-%2d%c%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &t, &tm.tm_hour,
		   &tm.tm_min, &tm.tm_sec, &used) != 7 ||
	    used != 19 || (t != 'T' && t != 't' && t != ' ') || tm.tm_sec > 59)
		return -EINVAL;
	text += used;
	if (*text == '.')
		text = fraction_parse(text + 1, &ms);
	if (!text || zone_parse(text, &zone))
		return -EINVAL;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	struct tm asked = tm;
	seconds = timegm(&tm);
	if (!date_exists(&asked, seconds))
		return -EINVAL;
	*ret_ms = (seconds - zone * 60) * 1000LL + ms;
	return 0;
}

void rfc3339_format(int64_t ms, char ret[RFC3339_SIZE])
{
	time_t s = ms / 1000;
	struct tm tm;
	size_t len;

	gmtime_r(&s, &tm);
	len = strftime(ret, RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret + len, RFC3339_SIZE - len, ".%03dZ", (int)(ms % 1000));
}
