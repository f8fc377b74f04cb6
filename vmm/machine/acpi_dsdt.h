/* The devices, as the DSDT describes them: acpi.c's own part. */
#ifndef CARREL_MACHINE_ACPI_DSDT_H
#define CARREL_MACHINE_ACPI_DSDT_H

#include "acpi.h"
#include "aml.h"

void acpi_dsdt_devices(struct aml *a, const struct acpi_config *config);

#endif
