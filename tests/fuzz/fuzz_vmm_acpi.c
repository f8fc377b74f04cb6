/* FUZZ: vmm/machine/acpi.c vmm/machine/acpi_dsdt.c vmm/machine/aml.c LIBS: */
/* Tables for any machine into an area of any size: whole, or refused, and never past its end. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/machine/acpi.h"
#include "vmm/machine/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct acpi_config config;
	uint16_t words[3];
	uint8_t *area;
	size_t room;

	if (size < sizeof(words))
		return 0;
	memcpy(words, data, sizeof(words));
	config = (struct acpi_config){ .vcpus = words[0], .virtio = words[1] };
	room = words[2];
	area = malloc(room ? room : 1); /* of exactly that size: a byte past it is found */
	if (acpi_build(&config, area, room, LAYOUT_ACPI) == 0 &&
	    (room < 36 || memcmp(area, "RSD PTR ", 8) != 0))
		abort();
	free(area);
	return 0;
}
