/* Requests counted by route and status, with their times. Thread-safe, lock-free. */
#ifndef CARREL_FRONT_FIGURES_H
#define CARREL_FRONT_FIGURES_H

#include <stdint.h>

#include "route.h"

enum {
	/* Routes have the numbers of their rows; one more for what is no route. */
	FIGURES_ROUTES_MAX = 96,
	FIGURES_BUCKETS = 11,
};

/* Upper bounds of the histogram's buckets, in milliseconds. */
extern const unsigned figures_bounds_ms[FIGURES_BUCKETS];

/* route NULL: none was found. status 0: cut without an answer. */
void figures_add(const struct route *route, int status, int64_t took_us);

struct route_figures {
	uint64_t le[FIGURES_BUCKETS]; /* answered within the bound */
	uint64_t count, us;
};
/* i == route_count: requests without a route. */
void figures_route(size_t i, struct route_figures *ret);
/* How many answers of the i-th route had this status, from 0 to 599. */
uint64_t figures_status(size_t i, int status);

#endif
