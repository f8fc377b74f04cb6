#include "target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"

/* Decodes a piece to *cursor and moves it behind the piece's NUL. */
static int piece_decode(const char *in, size_t len, bool plus, char **cursor, const char **ret)
{
	size_t n;
	int err = percent_decode(in, len, plus, *cursor, &n);

	if (err)
		return err;
	*ret = *cursor;
	*cursor += n + 1;
	return 0;
}

static int path_parse(const char *path, size_t len, struct target *t, char **cursor, struct fault *f)
{
	const char *end = path + len;

	if (len == 0 || *path != '/')
		return fault_set(f, EINVAL, 400, "bad_path", "The request's path must begin with a slash.");
	while (path < end) {
		const char *start = path + 1, *stop = memchr(start, '/', (size_t)(end - start));

		stop = stop ? stop : end;
		if (t->segment_count == TARGET_SEGMENTS_MAX)
			return fault_set(f, ENOENT, 404, "not_found",
					 "There is no such path; see /v1 in the manual.");
		if (piece_decode(start, (size_t)(stop - start), false, cursor,
				 &t->segments[t->segment_count]))
			return fault_set(f, EINVAL, 400, "bad_path",
					 "The request's path has a broken %%-escape, a NUL or bytes that are "
					 "not UTF-8.");
		t->segment_count++;
		path = stop;
	}
	return 0;
}

static int query_parse(const char *q, struct target *t, char **cursor, struct fault *f)
{
	while (*q) {
		size_t len = strcspn(q, "&"), name = strcspn(q, "=&");
		struct query_item *item = &t->query[t->query_count];

		if (len > 0) {
			if (t->query_count == TARGET_QUERY_MAX)
				return fault_set(f, EINVAL, 400, "bad_query",
						 "The query has more than %d parameters.", TARGET_QUERY_MAX);
			const char *value = name < len ? q + name + 1 : q + len;

			if (piece_decode(q, name, true, cursor, &item->name) ||
			    piece_decode(value, (size_t)(q + len - value), true, cursor, &item->value))
				return fault_set(f, EINVAL, 400, "bad_query",
						 "The query has a broken %%-escape, a NUL or bytes that are "
						 "not UTF-8.");
			t->query_count++;
		}
		q += len;
		q += *q == '&';
	}
	return 0;
}

int target_parse(const char *uri, struct target *ret, struct fault *f)
{
	size_t len = strnlen(uri, TARGET_LEN_MAX + 1), path_len = strcspn(uri, "?");
	struct target t = { .text = NULL };
	char *cursor;
	int err;

	if (len > TARGET_LEN_MAX)
		return fault_set(f, EINVAL, 414, "uri_too_long",
				 "The request's address is longer than %d bytes.", TARGET_LEN_MAX);
	/* Each piece ends with a NUL in place of its separator; a name without '=' has one more. */
	cursor = t.text = malloc(len + TARGET_QUERY_MAX + 2);
	if (!t.text)
		return fault_no_memory(f);
	err = path_parse(uri, path_len, &t, &cursor, f);
	if (!err && uri[path_len] == '?')
		err = query_parse(uri + path_len + 1, &t, &cursor, f);
	if (err) {
		free(t.text);
		return err;
	}
	*ret = t;
	return 0;
}

void target_free(struct target *t)
{
	free(t->text);
	*t = (struct target){ .text = NULL };
}

int target_query(const struct target *t, const char *name, const char **ret, struct fault *f)
{
	const char *found = NULL;

	for (unsigned i = 0; i < t->query_count; i++) {
		if (strcmp(t->query[i].name, name) != 0)
			continue;
		if (found)
			return fault_field(f, "bad_query", name, "The query has %s twice; give it once.",
					   name);
		found = t->query[i].value;
	}
	*ret = found;
	return 0;
}

int target_query_number(const struct target *t, const char *name, uint64_t min, uint64_t max,
			uint64_t fallback, uint64_t *ret, struct fault *f)
{
	const char *text;
	unsigned long long n;
	char *end;
	int err = target_query(t, name, &text, f);

	if (err)
		return err;
	if (!text) {
		*ret = fallback;
		return 0;
	}
	errno = 0;
	n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end)
		return fault_field(f, "wrong_type", name, "%s must be a whole number in decimal digits.",
				   name);
	if (errno || n < min || n > max)
		return fault_field(f, "out_of_range", name, "%s must be from %" PRIu64 " to %" PRIu64 ".",
				   name, min, max);
	*ret = n;
	return 0;
}
