#include "times.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../store/ids.h"

static void uuid_print(unsigned char raw[16], unsigned version, char ret[UUID_SIZE])
{
	raw[6] = (unsigned char)((raw[6] & 0x0f) | version << 4);
	raw[8] = (unsigned char)((raw[8] & 0x3f) | 0x80);
	snprintf(ret, UUID_SIZE, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[7], raw[8], raw[9], raw[10],
		 raw[11], raw[12], raw[13], raw[14], raw[15]);
}

void uuid_new(char ret[UUID_SIZE])
{
	unsigned char raw[16];

	random_fill(raw, sizeof(raw));
	uuid_print(raw, 4, ret);
}

void uuid_of(const char *name, char ret[UUID_SIZE])
{
	unsigned char sum[SHA256_DIGEST_LENGTH];

	SHA256((const unsigned char *)name, strlen(name), sum);
	uuid_print(sum, 8, ret);
}

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t unix_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

int64_t unix_ms(void)
{
	return unix_ns() / 1000000;
}

int64_t mono_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

uint64_t boottime_ns(void)
{
	return (uint64_t)clock_ns(CLOCK_BOOTTIME);
}

uint64_t boottime_of_unix_ms(int64_t ms)
{
	int64_t left = (ms - unix_ms()) * 1000000;
	int64_t now = clock_ns(CLOCK_BOOTTIME);

	if (ms == 0)
		return 0;
	/* A deadline that has passed is due now; 0 would mean none. */
	return (uint64_t)(left > 0 ? now + left : now);
}

void time_format(int64_t ms, char ret[TIME_SIZE])
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;
	size_t n;

	gmtime_r(&seconds, &tm);
	n = strftime(ret, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret + n, TIME_SIZE - n, ".%03dZ", (int)(ms % 1000));
}

int time_parse(const char *text, int64_t *ret_ms)
{
	struct tm tm = { 0 };
	int ms = 0;
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (!rest)
		return -EINVAL;
	if (*rest == '.')
		ms = atoi(rest + 1);
	*ret_ms = (int64_t)timegm(&tm) * 1000 + ms;
	return 0;
}
