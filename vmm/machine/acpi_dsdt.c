#include "acpi_dsdt.h"

#include <stdio.h>

#include "layout.h"

enum { OP_ARG_0 = 0x68, OP_NOTIFY = 0x86, OP_EQUAL = 0x93, ROOT_PREFIX = '\\', DUAL_NAME = 0x2e };

/* Device (VRnn) { _HID LNRO0005, _UID, _CCA 1, _CRS memory and interrupt } */
static void virtio_device(struct aml *a, unsigned index)
{
	char name[16];
	size_t device, resources;

	snprintf(name, sizeof(name), "VR%02u", index);
	device = aml_open(a, AML_DEVICE, name, 0);
	aml_name(a, "_HID");
	aml_string(a, "LNRO0005");
	aml_name(a, "_UID");
	aml_integer(a, index);
	aml_name(a, "_CCA");
	aml_integer(a, 1);
	aml_name(a, "_CRS");
	resources = aml_resources_open(a);
	aml_resource_memory(a, LAYOUT_VIRTIO + index * LAYOUT_VIRTIO_STEP, LAYOUT_VIRTIO_STEP);
	aml_resource_interrupt(a, LAYOUT_GSI_VIRTIO + index);
	aml_resources_close(a, resources);
	aml_close(a, device);
}

/* Without it Linux finds no interrupt for the port: there is no old interrupt controller. */
static void serial_device(struct aml *a)
{
	size_t device = aml_open(a, AML_DEVICE, "COM1", 0), resources;

	aml_name(a, "_HID");
	aml_eisa_id(a, "PNP0501");
	aml_name(a, "_UID");
	aml_integer(a, 0);
	aml_name(a, "_CRS");
	resources = aml_resources_open(a);
	aml_resource_port(a, LAYOUT_SERIAL_PORT, 8);
	aml_resource_interrupt(a, LAYOUT_GSI_SERIAL);
	aml_resources_close(a, resources);
	aml_close(a, device);
}

/* The generation id: a guest that finds it changed is a clone, and reseeds. */
static void generation_device(struct aml *a)
{
	size_t device = aml_open(a, AML_DEVICE, "VGEN", 0), package;

	aml_name(a, "_HID");
	aml_string(a, "VMGENCTR");
	aml_name(a, "_CID");
	aml_string(a, "VM_Gen_Counter");
	aml_name(a, "_DDN");
	aml_string(a, "VM_Gen_Counter");
	aml_name(a, "ADDR");
	package = aml_open(a, AML_PACKAGE, NULL, 2);
	aml_integer(a, LAYOUT_VMGENID);
	aml_integer(a, 0);
	aml_close(a, package);
	aml_close(a, device);
}

/* Method (_EVT, 1) { If (Arg0 == gsi) { Notify (\_SB.VGEN, 0x80) } } */
static void event_device(struct aml *a)
{
	size_t device = aml_open(a, AML_DEVICE, "GED_", 0), inner, method;

	aml_name(a, "_HID");
	aml_string(a, "ACPI0013");
	aml_name(a, "_UID");
	aml_integer(a, 0);
	aml_name(a, "_CRS");
	inner = aml_resources_open(a);
	aml_resource_interrupt(a, LAYOUT_GSI_EVENT);
	aml_resources_close(a, inner);

	method = aml_open(a, AML_METHOD, "_EVT", 1);
	inner = aml_open(a, AML_IF, NULL, 0);
	aml_byte(a, OP_EQUAL);
	aml_byte(a, OP_ARG_0);
	aml_integer(a, LAYOUT_GSI_EVENT);
	aml_byte(a, OP_NOTIFY);
	aml_byte(a, ROOT_PREFIX);
	aml_byte(a, DUAL_NAME);
	aml_bytes(a, "_SB_VGEN", 8);
	aml_integer(a, 0x80);
	aml_close(a, inner);
	aml_close(a, method);
	aml_close(a, device);
}

/* Name (\_S5_, Package { 5 }): without it Linux does not know how to power off. */
static void power_off(struct aml *a)
{
	size_t package;

	aml_name(a, "_S5_");
	package = aml_open(a, AML_PACKAGE, NULL, 1);
	aml_integer(a, 5);
	aml_close(a, package);
}

void acpi_dsdt_devices(struct aml *a, const struct acpi_config *config)
{
	size_t scope = aml_open(a, AML_SCOPE, "_SB_", 0);

	serial_device(a);
	for (unsigned i = 0; i < config->virtio; i++)
		virtio_device(a, i);
	generation_device(a);
	event_device(a);
	aml_close(a, scope);
	power_off(a);
}
