/* An uncompressed Linux kernel (ELF vmlinux) into guest memory. The file is
 * ours, but it is read as if it were not: a segment outside of RAM or of the
 * file, or a table that does not add up, is an error and never an access.
 */
#ifndef CARREL_MACHINE_ELF_H
#define CARREL_MACHINE_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "problem.h"

struct elf_kernel {
	uint64_t entry;     /* 64-bit, in long mode */
	uint32_t pvh_entry; /* 32-bit, of the PVH note */
	bool has_pvh;
	uint64_t end; /* first byte behind the highest segment, its zeroed part included */
};

/* -ENOEXEC: not such a file. */
int elf_load(const struct guest_memory *m, int fd, struct elf_kernel *ret, struct problem *p);

#endif
