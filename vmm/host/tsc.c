#include "tsc.h"

#include <stdint.h>
#include <time.h>
#include <x86intrin.h>

enum { TRIES = 32, SPAN_NS = 100 * 1000 * 1000 };

struct sample {
	uint64_t tsc, ns;
};

static uint64_t raw_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Both clocks at one moment: of several tries the one that took least, so that
 * being scheduled away in between does not count. */
static struct sample sample_take(void)
{
	struct sample best = { 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = __rdtsc(), ns = raw_ns(), after = __rdtsc();

		if (after - before < least) {
			least = after - before;
			best = (struct sample){ before + (after - before) / 2, ns };
		}
	}
	return best;
}

unsigned tsc_khz(void)
{
	static unsigned khz;
	const struct timespec span = { .tv_nsec = SPAN_NS };
	struct sample a, b;

	if (khz)
		return khz;
	a = sample_take();
	nanosleep(&span, NULL);
	b = sample_take();
	if (b.ns > a.ns)
		khz = (unsigned)((b.tsc - a.tsc) * 1000000u / (b.ns - a.ns));
	return khz;
}
