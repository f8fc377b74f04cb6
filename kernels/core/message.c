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

size_t session_header(struct session *s, const char *type, char out[MESSAGE_HEADER_MAX])
{
	unsigned long count = atomic_fetch_add(&s->count, 1);
	struct timespec now;
	struct tm tm;
	int n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = snprintf(out, MESSAGE_HEADER_MAX,
		     "{\"msg_id\":\"%s_%lu\",\"session\":\"%s\",\"username\":\"kernel\","
		     "\"date\":\"%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ\",\"msg_type\":\"%.*s\","
		     "\"version\":\"" MESSAGE_VERSION "\"}",
		     s->id, count, s->id, tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
		     tm.tm_sec, now.tv_nsec / 1000, MESSAGE_TYPE_MAX, type);
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
