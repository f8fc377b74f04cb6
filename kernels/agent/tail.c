#include "tail.h"

#include "util.h"

void tail_add(struct tail *t, const char *bytes, size_t len)
{
	size_t i;

	if (len > sizeof(t->bytes)) {
		t->total += len - sizeof(t->bytes);
		bytes += len - sizeof(t->bytes);
		len = sizeof(t->bytes);
	}
	for (i = 0; i < len; i++)
		t->bytes[t->total++ % sizeof(t->bytes)] = bytes[i];
}

void tail_clear(struct tail *t)
{
	t->total = 0;
}

json_t *tail_json(const struct tail *t)
{
	char flat[sizeof(t->bytes)];
	size_t len = t->total < sizeof(flat) ? (size_t)t->total : sizeof(flat), i;
	uint64_t first = t->total - len;
	const char *from = flat, *line;

	if (!len)
		return NULL;
	for (i = 0; i < len; i++)
		flat[i] = t->bytes[(first + i) % sizeof(flat)];
	if (first > 0 && (line = memchr(flat, '\n', len)) && line + 1 < flat + len)
		from = line + 1;
	return text_json(from, len - (size_t)(from - flat));
}

/* Length of the UTF-8 character at s, 0 when there is none. */
static size_t utf8_length(const unsigned char *s, size_t len)
{
	size_t want = s[0] < 0x80   ? 1
		      : s[0] < 0xc2 ? 0
		      : s[0] < 0xe0 ? 2
		      : s[0] < 0xf0 ? 3
		      : s[0] < 0xf5 ? 4
				    : 0,
	       i;

	if (!want || want > len || !s[0])
		return 0;
	for (i = 1; i < want; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return want;
}

json_t *text_json(const char *bytes, size_t len)
{
	char *out = xcalloc(len * 3 + 1, 1);
	size_t i = 0, n = 0;
	json_t *json;

	while (i < len) {
		size_t one = utf8_length((const unsigned char *)bytes + i, len - i);

		memcpy(out + n, one ? bytes + i : "\xef\xbf\xbd", one ? one : 3);
		n += one ? one : 3;
		i += one ? one : 1;
	}
	json = json_stringn(out, n);
	free(out);
	return json;
}
