#include "clip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CLIP_FIRST_SIZE = 256 };

void clip_init(struct clip *c, size_t head_max, size_t tail_max)
{
	*c = (struct clip){ .head_max = head_max, .tail_max = tail_max };
}

static int clip_reserve(struct clip *c, size_t need)
{
	size_t max = c->head_max + c->tail_max;
	size_t size = c->size ? c->size : CLIP_FIRST_SIZE;
	char *buf;

	if (need > max)
		need = max;
	if (need <= c->size)
		return 0;
	while (size < need)
		size *= 2;
	if (size > max)
		size = max;
	buf = realloc(c->buf, size);
	if (!buf)
		return -ENOMEM;
	c->buf = buf;
	c->size = size;
	return 0;
}

static void ring_write(struct clip *c, const char *bytes, size_t len)
{
	char *ring = c->buf + c->head_max;
	size_t first;

	if (len >= c->tail_max) {
		memcpy(ring, bytes + len - c->tail_max, c->tail_max);
		c->ring_at = 0;
		return;
	}
	first = c->tail_max - c->ring_at;
	if (first > len)
		first = len;
	memcpy(ring + c->ring_at, bytes, first);
	memcpy(ring, bytes + first, len - first);
	c->ring_at = (c->ring_at + len) % c->tail_max;
}

int clip_append(struct clip *c, const void *bytes, size_t len)
{
	size_t max = c->head_max + c->tail_max;
	size_t have = c->total < max ? (size_t)c->total : max;
	size_t linear = len < max - have ? len : max - have;
	int err = clip_reserve(c, have + linear);

	if (err)
		return err;
	if (linear > 0)
		memcpy(c->buf + have, bytes, linear);
	if (len > linear && c->tail_max > 0)
		ring_write(c, (const char *)bytes + linear, len - linear);
	c->total += len;
	return 0;
}

int clip_restore(struct clip *c, const char *head, size_t head_len, const char *tail, size_t tail_len,
		 uint64_t total)
{
	int err;

	clip_free(c);
	if (total <= head_len + tail_len)
		return clip_append(c, head, head_len);
	clip_init(c, head_len, tail_len);
	err = clip_append(c, head, head_len);
	if (!err)
		err = clip_append(c, tail, tail_len);
	if (!err)
		c->total = total;
	return err;
}

uint64_t clip_total(const struct clip *c)
{
	return c->total;
}

bool clip_truncated(const struct clip *c)
{
	return c->total > c->head_max + c->tail_max;
}

const char *clip_head(struct clip *c, size_t *ret_len)
{
	if (!c->buf) {
		*ret_len = 0;
		return "";
	}
	*ret_len = clip_truncated(c) ? utf8_head_cut(c->buf, c->head_max) : (size_t)c->total;
	return c->buf;
}

static void reverse(char *at, size_t len)
{
	for (size_t i = 0; i < len / 2; i++) {
		char swap = at[i];

		at[i] = at[len - 1 - i];
		at[len - 1 - i] = swap;
	}
}

const char *clip_tail(struct clip *c, size_t *ret_len)
{
	char *ring;
	size_t skip;

	if (!clip_truncated(c) || c->tail_max == 0 || !c->buf) {
		*ret_len = 0;
		return "";
	}
	/* Three reversals turn the ring so that its oldest byte comes first. */
	ring = c->buf + c->head_max;
	reverse(ring, c->ring_at);
	reverse(ring + c->ring_at, c->tail_max - c->ring_at);
	reverse(ring, c->tail_max);
	c->ring_at = 0;
	skip = utf8_tail_skip(ring, c->tail_max);
	*ret_len = c->tail_max - skip;
	return ring + skip;
}

void clip_free(struct clip *c)
{
	free(c->buf);
	clip_init(c, c->head_max, c->tail_max);
}

static bool is_continuation(char byte)
{
	return ((unsigned char)byte & 0xC0) == 0x80;
}

/* Bytes that a lead byte announces; 1 for anything that is no lead of several. */
static size_t announced(unsigned char lead)
{
	if (lead >= 0xC2 && lead <= 0xDF)
		return 2;
	if (lead >= 0xE0 && lead <= 0xEF)
		return 3;
	return lead >= 0xF0 && lead <= 0xF4 ? 4 : 1;
}

size_t utf8_head_cut(const char *text, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		if (is_continuation(text[len - back]))
			continue;
		return announced(text[len - back]) > back ? len - back : len;
	}
	return len;
}

size_t utf8_tail_skip(const char *text, size_t len)
{
	size_t skip = 0;

	while (skip < len && skip < 3 && is_continuation(text[skip]))
		skip++;
	return skip;
}

/* Length of the valid character at text, or 0. */
static size_t utf8_valid(const char *text, size_t len)
{
	unsigned char lead = text[0], second;
	size_t want = announced(lead);

	if (lead < 0x80)
		return 1;
	if (want == 1 || want > len)
		return 0;
	for (size_t i = 1; i < want; i++)
		if (!is_continuation(text[i]))
			return 0;
	second = text[1];
	/* Overlong forms, surrogates, and what lies past U+10FFFF. */
	if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
	    (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
		return 0;
	return want;
}

char *utf8_clean(const char *text, size_t len, size_t *ret_len)
{
	char *copy = malloc(len * 3 + 1);
	size_t out = 0;

	if (!copy)
		return NULL;
	for (size_t at = 0; at < len;) {
		size_t n = utf8_valid(text + at, len - at);

		if (n == 0) {
			memcpy(copy + out, "\xEF\xBF\xBD", 3);
			out += 3;
			at++;
			continue;
		}
		memcpy(copy + out, text + at, n);
		out += n;
		at += n;
	}
	copy[out] = '\0';
	*ret_len = out;
	return copy;
}
