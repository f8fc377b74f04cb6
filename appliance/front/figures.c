#include "figures.h"

#include <stdatomic.h>

const unsigned figures_bounds_ms[FIGURES_BUCKETS] = { 1, 2, 5, 10, 25, 50, 100, 250, 1000, 10000, 60000 };

enum { STATUSES = 600 };

static struct {
	atomic_uint_fast64_t status[STATUSES];
	atomic_uint_fast64_t le[FIGURES_BUCKETS];
	atomic_uint_fast64_t us;
} seen[FIGURES_ROUTES_MAX];

static size_t route_index(const struct route *route)
{
	size_t i = route ? (size_t)(route - routes) : route_count;

	return i < FIGURES_ROUTES_MAX ? i : FIGURES_ROUTES_MAX - 1;
}

void figures_add(const struct route *route, int status, int64_t took_us)
{
	size_t at = route_index(route);

	atomic_fetch_add_explicit(&seen[at].status[status > 0 && status < STATUSES ? status : 0], 1,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&seen[at].us, (uint64_t)took_us, memory_order_relaxed);
	for (unsigned i = 0; i < FIGURES_BUCKETS; i++)
		if (took_us <= figures_bounds_ms[i] * 1000LL)
			atomic_fetch_add_explicit(&seen[at].le[i], 1, memory_order_relaxed);
}

void figures_route(size_t i, struct route_figures *ret)
{
	struct route_figures f = { .us = atomic_load(&seen[i].us) };

	for (unsigned b = 0; b < FIGURES_BUCKETS; b++)
		f.le[b] = atomic_load(&seen[i].le[b]);
	/* Counted last, so that no bucket holds more than the whole. */
	for (int s = 0; s < STATUSES; s++)
		f.count += atomic_load(&seen[i].status[s]);
	for (unsigned b = 0; b < FIGURES_BUCKETS; b++)
		f.le[b] = f.le[b] < f.count ? f.le[b] : f.count;
	*ret = f;
}

uint64_t figures_status(size_t i, int status)
{
	return atomic_load(&seen[i].status[status]);
}
