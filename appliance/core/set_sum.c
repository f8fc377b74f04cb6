#include "set_sum.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool set_manifest_sum(json_t *manifest, char ret[DISK_HASH_SIZE])
{
	unsigned char sum[SHA256_DIGEST_LENGTH];
	json_t *rest = json_copy(manifest);
	char *text;

	json_object_del(rest, "sum");
	text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(rest);
	if (!text)
		return false;
	SHA256((const unsigned char *)text, strlen(text), sum);
	for (size_t i = 0; i < sizeof(sum); i++)
		snprintf(ret + 2 * i, 3, "%02x", sum[i]);
	free(text);
	return true;
}
