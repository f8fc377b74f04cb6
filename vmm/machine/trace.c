#include "trace.h"

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

enum { CALIBRATION_US = 10 * 1000 };

/* Counts a microsecond; 0: nobody wants to know. A clock would be a system call on some hosts. */
static uint64_t rate;
static uint64_t began, before;

static uint64_t clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void trace_begin(void)
{
	uint64_t from = clock_us(), count = __rdtsc(), passed;

	do
		passed = clock_us() - from;
	while (passed < CALIBRATION_US);
	rate = (__rdtsc() - count) / passed;
	began = before = __rdtsc();
}

void trace_step(const char *what)
{
	uint64_t now;

	if (rate == 0)
		return;
	now = __rdtsc();
	fprintf(stderr, "carrel-vmm: %llu us, +%llu: %s\n", (unsigned long long)((now - began) / rate),
		(unsigned long long)((now - before) / rate), what);
	/* What telling took is no step's. */
	before = __rdtsc();
}
