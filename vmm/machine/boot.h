/* What lies in guest memory before the first instruction: kernel, initramfs,
 * command line, memory map, ACPI tables, and for the 64-bit entry page tables
 * and a descriptor table; and where the first vCPU begins.
 *
 * Two ways in. The 64-bit entry of Linux' boot protocol is the default: it never
 * runs with paging off, which old software emulators get wrong under nested
 * paging. PVH's 32-bit entry is for kernels that only have that.
 */
#ifndef CARREL_MACHINE_BOOT_H
#define CARREL_MACHINE_BOOT_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "problem.h"

struct boot_files {
	int kernel_fd;
	int initrd_fd;       /* -1: none */
	const char *cmdline; /* below LAYOUT_CMDLINE_MAX */
	bool pvh;
};

struct boot_entry {
	uint64_t address;
	bool pvh;
};

int boot_load(const struct guest_memory *m, const struct boot_files *files, struct boot_entry *ret,
	      struct problem *p);

/* The memory map, in the form of Linux' e820 table. */
enum { BOOT_RANGES = 4, BOOT_RAM = 1, BOOT_RESERVED = 2 };
struct boot_range {
	uint64_t start, size;
	uint32_t type;
};
/* Fills in at most BOOT_RANGES; returns how many. */
unsigned boot_map(const struct guest_memory *m, struct boot_range ret[BOOT_RANGES]);

#endif
