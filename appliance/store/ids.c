#include "ids.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { ID_RANDOM_CHARS = 20 };

void random_fill(void *buf, size_t len)
{
	uint8_t *at = buf;

	while (len > 0) {
		ssize_t n = getrandom(at, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			perror("carrel: no random source");
			abort();
		}
		at += n;
		len -= n;
	}
}

void id_new(const char *prefix, char ret[STORE_ID_MAX])
{
	static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint8_t random[ID_RANDOM_CHARS];
	int at = snprintf(ret, STORE_ID_MAX - ID_RANDOM_CHARS, "%.18s-", prefix);

	random_fill(random, sizeof(random));
	for (unsigned i = 0; i < ID_RANDOM_CHARS; i++)
		ret[at + i] = alphabet[random[i] & 31];
	ret[at + ID_RANDOM_CHARS] = '\0';
}

bool id_valid(const char *id)
{
	size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return len > 0 && len < STORE_ID_MAX && id[len] == '\0';
}
