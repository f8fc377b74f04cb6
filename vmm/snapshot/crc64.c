#include "crc64.h"

#define POLYNOMIAL 0xc96c5795d7870f42ull

static void table_make(uint64_t table[256])
{
	for (unsigned i = 0; i < 256; i++) {
		uint64_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
		table[i] = crc;
	}
}

uint64_t crc64(const void *bytes, size_t size)
{
	const uint8_t *b = bytes;
	uint64_t table[256], crc = UINT64_MAX;

	table_make(table);
	while (size-- > 0)
		crc = table[(crc ^ *b++) & 0xff] ^ crc >> 8;
	return ~crc;
}
