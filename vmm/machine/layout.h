/* Guest physical addresses, all of them, each with its reason. Below 1 MiB lies
 * what the monitor writes before the guest runs; it is reserved in the memory
 * map from LAYOUT_LOW_RAM_END on, so that a guest keeps its hands off the tables.
 */
#ifndef CARREL_MACHINE_LAYOUT_H
#define CARREL_MACHINE_LAYOUT_H

/* Needed only until the guest has its own: inside RAM it may use again. */
#define LAYOUT_GDT 0x500
#define LAYOUT_IDT 0x520
#define LAYOUT_PVH_START 0x6000 /* struct pvh_start_info, its one module behind it */
#define LAYOUT_PVH_MODULE 0x6040
#define LAYOUT_ZERO_PAGE 0x7000 /* Linux' boot_params, or PVH's memory map */
#define LAYOUT_BOOT_STACK 0x8ff0
#define LAYOUT_PML4 0x9000
#define LAYOUT_PDPT 0xa000
#define LAYOUT_PD 0xb000
#define LAYOUT_CMDLINE 0x20000

/* The extended BIOS data area's usual place: Linux reserves from here to 1 MiB
 * itself, so tables and the generation id are safe there. */
#define LAYOUT_LOW_RAM_END 0x9fc00
#define LAYOUT_VMGENID 0xdf000 /* 16 bytes, in a page of its own */
#define LAYOUT_ACPI 0xe0000    /* RSDP first: guests search from here */
#define LAYOUT_ACPI_SIZE 0x20000
#define LAYOUT_HIGH_RAM 0x100000 /* a kernel lies no lower */

/* Devices, between the end of low RAM and 4 GiB. */
#define LAYOUT_VIRTIO 0xd0000000
#define LAYOUT_VIRTIO_STEP 0x1000
#define LAYOUT_POWER 0xe0000000 /* ACPI's sleep control, status and reset registers */
#define LAYOUT_POWER_SIZE 4
#define LAYOUT_IOAPIC 0xfec00000
#define LAYOUT_LAPIC 0xfee00000
/* KVM wants three pages for Intel processors without unrestricted guests, and
 * one more for an identity map: in the hole, where no RAM is. */
#define LAYOUT_TSS 0xfffbd000
#define LAYOUT_IDENTITY_MAP 0xfffbc000

#define LAYOUT_SERIAL_PORT 0x3f8

/* Interrupts: all edge-triggered and active-high. */
enum {
	LAYOUT_GSI_SERIAL = 4,
	LAYOUT_GSI_VIRTIO = 5, /* and up */
	LAYOUT_GSI_EVENT = 23, /* generation id changed; the IOAPIC's last pin */
	LAYOUT_VIRTIO_MAX = LAYOUT_GSI_EVENT - LAYOUT_GSI_VIRTIO,
};

/* Linux' COMMAND_LINE_SIZE, its end included. */
#define LAYOUT_CMDLINE_MAX 2048

#endif
