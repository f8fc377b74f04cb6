/* Where a guest's accesses to ports and to device memory go, and the one lock
 * over all devices: a vCPU holds it for an access, the loop for a callback.
 *
 * Windows are added before the first vCPU runs; a device sees an access only if
 * all of it lies inside its window. Everything else reads as ones and is
 * written to nowhere, as on a machine where nothing answers.
 */
#ifndef CARREL_MACHINE_BUS_H
#define CARREL_MACHINE_BUS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	/* Virtio devices' and the power registers'; the serial port's. */
	BUS_WINDOWS_MAX = 24,
	/* The widest access KVM hands over. */
	BUS_ACCESS_MAX = 8,
};

struct bus_window {
	uint64_t base, size;
	void (*read)(void *arg, uint64_t offset, void *ret, unsigned len);
	void (*write)(void *arg, uint64_t offset, const void *data, unsigned len);
	void *arg;
};

struct bus_space {
	struct bus_window windows[BUS_WINDOWS_MAX];
	unsigned count;
};

struct bus {
	pthread_mutex_t lock;
	struct bus_space memory, ports;
};

/* -ENOSPC: too many; -EINVAL: empty, or it overlaps another. */
int bus_add(struct bus_space *space, const struct bus_window *window);

/* The caller holds the lock. len at most BUS_ACCESS_MAX. */
void bus_read(const struct bus_space *space, uint64_t address, void *ret, unsigned len);
void bus_write(const struct bus_space *space, uint64_t address, const void *data, unsigned len);

#endif
