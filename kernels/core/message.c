#include "core/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/random.h>

int session_init(struct session *s)
{
	unsigned char raw[16];
	size_t i;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -errno;
	for (i = 0; i < sizeof(raw); i++)
		snprintf(s->id + 2 * i, 3, "%02x", raw[i]);
	atomic_store(&s->count, 0);
	return 0;
}

void message_date(char out[MESSAGE_DATE_MAX])
{
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	snprintf(out, MESSAGE_DATE_MAX, "%04u-%02u-%02uT%02u:%02u:%02u.%06luZ", (unsigned)tm.tm_year % 10000 + 1900,
		 (unsigned)tm.tm_mon % 100 + 1, (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
		 (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100, (unsigned long)now.tv_nsec / 1000 % 1000000);
}

size_t session_header(struct session *s, const char *type, char out[MESSAGE_HEADER_MAX])
{
	unsigned long count = atomic_fetch_add(&s->count, 1);
	char date[MESSAGE_DATE_MAX];
	int n;

	message_date(date);
	n = snprintf(out, MESSAGE_HEADER_MAX,
		     "{\"msg_id\":\"%s_%lu\",\"session\":\"%s\",\"username\":\"kernel\","
		     "\"date\":\"%s\",\"msg_type\":\"%.*s\",\"version\":\"" MESSAGE_VERSION "\"}",
		     s->id, count, s->id, date, MESSAGE_TYPE_MAX, type);
	return n < MESSAGE_HEADER_MAX ? (size_t)n : MESSAGE_HEADER_MAX - 1;
}

struct parent *parent_new(const void *json, size_t len)
{
	struct parent *p = malloc(sizeof(*p) + len);

	if (!p)
		return NULL;
	atomic_init(&p->refs, 1);
	p->len = len;
	memcpy(p->json, json, len);
	return p;
}

struct parent *parent_ref(struct parent *p)
{
	if (p)
		atomic_fetch_add(&p->refs, 1);
	return p;
}

void parent_unref(struct parent *p)
{
	if (p && atomic_fetch_sub(&p->refs, 1) == 1)
		free(p);
}

struct slice parent_slice(const struct parent *p)
{
	if (!p)
		return (struct slice){ "{}", 2 };
	return (struct slice){ p->json, p->len };
}
