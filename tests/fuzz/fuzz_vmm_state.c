/* FUZZ: vmm/snapshot/state.c vmm/snapshot/crc64.c vmm/snapshot/file.c vmm/machine/problem.c LIBS: */
/* Any bytes as a machine's state: refused, or with counts that hold. Every second input is given a
 * right size and sum, which no fuzzer would guess. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/snapshot/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_counts(const struct state *s, size_t size)
{
	struct problem p = { "" };

	if (state_check(s, size, &p) != 0) {
		if (p.text[0] == '\0')
			abort();
		return;
	}
	if (size != state_size(s->header.vcpus) || s->header.devices > MACHINE_DEVICES_MAX ||
	    s->header.memory_size > MEMORY_MAX)
		abort();
	for (uint32_t i = 0; i < s->header.vcpus; i++)
		if (s->vcpu[i].cpuid_count > CPUID_ENTRIES_MAX || s->vcpu[i].msr_count > STATE_MSRS_MAX)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t whole = state_size(1), n;
	struct state *s;

	if (size < 1)
		return 0;
	s = calloc(1, whole);
	if (!s)
		return 0;
	n = size - 1 < whole ? size - 1 : whole;
	memcpy(s, data + 1, n);
	if (data[0] & 1) {
		s->header.vcpus = 1;
		/* The header's own fields are few: most of the input goes where counts are. */
		if (n >= 16)
			memcpy(&s->vcpu[0].cpuid_count, data + 1 + n - 8, 8);
		state_seal(s);
	}
	check_counts(s, data[0] & 2 ? n : whole);
	free(s);
	return 0;
}
