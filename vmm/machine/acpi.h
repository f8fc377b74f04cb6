/* The ACPI tables: how a guest learns of its processors, its interrupt chip and
 * its devices. Hardware-reduced: no power management timer, no old BIOS parts.
 */
#ifndef CARREL_MACHINE_ACPI_H
#define CARREL_MACHINE_ACPI_H

#include <stddef.h>
#include <stdint.h>

struct acpi_config {
	unsigned vcpus;  /* 1 to ACPI_VCPUS_MAX */
	unsigned virtio; /* devices at LAYOUT_VIRTIO and up; to LAYOUT_VIRTIO_MAX */
};

/* APIC ids are eight bits in the tables; a sandbox has no use for more than this. */
enum { ACPI_VCPUS_MAX = 64 };

/* Writes them, RSDP first, into area, which the guest has at gpa.
 * -ENOSPC: the area is too small; -EINVAL: config. */
int acpi_build(const struct acpi_config *config, uint8_t *area, size_t size, uint64_t gpa);

/* The sleep control register's value that powers the machine off, and the reset
 * register's; registers are bytes at LAYOUT_POWER + one of these. */
enum { ACPI_SLEEP_CONTROL, ACPI_SLEEP_STATUS, ACPI_RESET };
enum { ACPI_SLEEP_OFF = 5 << 2 | 1 << 5, ACPI_RESET_VALUE = 1 };

#endif
