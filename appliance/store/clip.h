/* Head and tail of a stream of bytes, in bounded memory.
 *
 * Bytes go in as they come; what is kept is everything while it fits into
 * head_max + tail_max, else the first head_max and the last tail_max bytes, cut
 * so that no UTF-8 character is split. Bytes that are not UTF-8 are kept as they
 * are (the store's readers replace them when they make JSON).
 *
 * Not thread-safe. The pointers that clip_head() and clip_tail() give are valid
 * until the next call that takes the clip.
 */
#ifndef CARREL_CLIP_H
#define CARREL_CLIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clip {
	char *buf; /* head, then the ring of the tail */
	size_t size, head_max, tail_max;
	size_t ring_at; /* oldest byte of a ring that has wrapped */
	uint64_t total;
};

/* Allocates nothing yet. */
void clip_init(struct clip *c, size_t head_max, size_t tail_max);
/* 0 or -ENOMEM (nothing was taken then). */
int clip_append(struct clip *c, const void *bytes, size_t len);
/* Goes on where an earlier clip was: what its head and tail held, of total bytes
 * in all. The limits become what they held where something was left out. 0 or -ENOMEM. */
int clip_restore(struct clip *c, const char *head, size_t head_len, const char *tail, size_t tail_len,
		 uint64_t total);
/* All bytes ever appended. */
uint64_t clip_total(const struct clip *c);
/* True once something was left out. */
bool clip_truncated(const struct clip *c);
/* The kept start; everything while nothing was left out. Never NULL. */
const char *clip_head(struct clip *c, size_t *ret_len);
/* The kept end; empty while nothing was left out. Never NULL. */
const char *clip_tail(struct clip *c, size_t *ret_len);
/* Leaves an empty clip with the same limits. */
void clip_free(struct clip *c);

/* Length of text with an unfinished UTF-8 character at its end left out. */
size_t utf8_head_cut(const char *text, size_t len);
/* Bytes at the start of text that continue a character begun before it (0-3). */
size_t utf8_tail_skip(const char *text, size_t len);
/* A copy, allocated, with every byte that is not UTF-8 replaced by U+FFFD; NULL: out of memory. */
char *utf8_clean(const char *text, size_t len, size_t *ret_len);

#endif
