#include "bus.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

int bus_add(struct bus_space *space, const struct bus_window *window)
{
	uint64_t end = window->base + window->size;

	if (window->size == 0 || end < window->base)
		return -EINVAL;
	for (unsigned i = 0; i < space->count; i++) {
		const struct bus_window *other = &space->windows[i];

		if (window->base < other->base + other->size && other->base < end)
			return -EINVAL;
	}
	if (space->count == BUS_WINDOWS_MAX)
		return -ENOSPC;
	space->windows[space->count++] = *window;
	return 0;
}

static const struct bus_window *find(const struct bus_space *space, uint64_t address, unsigned len)
{
	for (unsigned i = 0; i < space->count; i++) {
		const struct bus_window *w = &space->windows[i];

		if (address >= w->base && address - w->base < w->size)
			return len <= w->size - (address - w->base) ? w : NULL;
	}
	return NULL;
}

void bus_read(const struct bus_space *space, uint64_t address, void *ret, unsigned len)
{
	const struct bus_window *w = find(space, address, len);

	memset(ret, 0xff, len);
	if (w)
		w->read(w->arg, address - w->base, ret, len);
}

void bus_write(const struct bus_space *space, uint64_t address, const void *data, unsigned len)
{
	const struct bus_window *w = find(space, address, len);

	if (w)
		w->write(w->arg, address - w->base, data, len);
}
