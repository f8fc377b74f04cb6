/* The first serial port, for a kernel's boot messages: output only, and only
 * the first SERIAL_OUTPUT_MAX bytes of it; what follows is dropped, so that a
 * guest fills neither a disk nor a pipe. A 16550 as far as Linux' driver looks
 * at one; nothing is ever received. Calls come under the bus lock.
 */
#ifndef CARREL_MACHINE_SERIAL_H
#define CARREL_MACHINE_SERIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "bus.h"

enum {
	SERIAL_PORTS = 8,
	/* A kernel that says everything writes 30 KiB while booting. */
	SERIAL_OUTPUT_MAX = 64 * 1024,
	/* Written at once; below PIPE_BUF, so a pipe takes it whole or not at all. */
	SERIAL_LINE_MAX = 256,
};

/* What a snapshot keeps of it. */
struct serial_state {
	uint8_t ier, lcr, mcr, scr, dll, dlm, fcr, thre_pending;
};

struct serial {
	int out_fd; /* non-blocking; -1: nowhere */
	int irq_fd; /* an eventfd that raises its interrupt; -1: none */
	struct serial_state state;
	uint32_t written;
	unsigned used;
	char line[SERIAL_LINE_MAX];
};

/* Both descriptors stay the caller's. */
void serial_init(struct serial *s, int out_fd, int irq_fd);
struct bus_window serial_window(struct serial *s);
/* A line that has not ended yet goes out as well. */
void serial_flush(struct serial *s);
/* After a restore: a driver that waited for an empty transmitter is told again. */
void serial_kick(struct serial *s);

#endif
