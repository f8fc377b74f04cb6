/* FUZZ: vmm/machine/control.c vmm/machine/problem.c LIBS: */
/* Any bytes as a request of the monitor's owner. First byte: how many descriptors came with it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/machine/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_request r = { 0 };
	struct problem p = { "" };
	unsigned count;

	if (size < 1)
		return 0;
	count = data[0];
	data++;
	size--;
	memcpy(&r, data, size < sizeof(r) ? size : sizeof(r));
	if (control_check(&r, size, count, &p) != 0) {
		if (p.text[0] == '\0')
			abort();
		return 0;
	}
	if (count > CONTROL_FILES || r.verb >= CONTROL_ENDED || strnlen(p.text, sizeof(p.text)) != 0)
		abort();
	if (r.verb == CONTROL_START && strlen(r.cmdline) >= sizeof(r.cmdline))
		abort();
	return 0;
}
