#include "figures.h"

#include <string.h>

static bool word_plain(const char *word, size_t len)
{
	return len > 0 && len < TALLY_WORD_MAX && strspn(word, "abcdefghijklmnopqrstuvwxyz-") >= len;
}

void tally_add(struct tally *t, const char *word)
{
	size_t len = strcspn(word, "(");
	unsigned i;

	if (!word_plain(word, len)) {
		word = "other";
		len = strlen(word);
	}
	for (i = 0; i < t->count; i++)
		if (strlen(t->words[i].word) == len && !memcmp(t->words[i].word, word, len))
			break;
	/* The last place is kept for what has no place of its own. */
	if (i == t->count && t->count >= TALLY_WORDS_MAX - 1) {
		i = TALLY_WORDS_MAX - 1;
		word = "other";
		len = strlen(word);
	}
	if (i >= t->count) {
		memcpy(t->words[i].word, word, len);
		t->words[i].word[len] = '\0';
		t->count = i + 1;
	}
	t->words[i].count++;
}
