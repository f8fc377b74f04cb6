#include "acpi.h"

#include <errno.h>
#include <string.h>

#include "acpi_dsdt.h"
#include "layout.h"

enum {
	FADT_HW_REDUCED = 1 << 20,
	FADT_RESET_REGISTER = 1 << 10,
	FADT_WBINVD = 1 << 0,
	FADT_NO_BUTTONS = 1 << 4 | 1 << 5, /* none of power or sleep in fixed hardware */
	/* No VGA, no MSI, no PCIe power management, no CMOS clock; and, by leaving
	 * out their bits, no 8042 and no other old device. */
	FADT_BOOT_ARCH = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5,
	MADT_LAPIC = 0,
	MADT_IOAPIC = 1,
	RSDP_SUM_1 = 20, /* bytes the first of its two sums goes over */
};

struct rsdp {
	char signature[8];
	uint8_t sum;
	char oem[6];
	uint8_t revision;
	uint32_t rsdt;
	uint32_t length;
	uint64_t xsdt;
	uint8_t extended_sum;
	uint8_t reserved[3];
} __attribute__((packed));
_Static_assert(sizeof(struct rsdp) == 36, "ACPI 6.4, 5.2.5.3");

struct header {
	char signature[4];
	uint32_t length;
	uint8_t revision;
	uint8_t sum;
	char oem[6];
	char oem_table[8];
	uint32_t oem_revision;
	char creator[4];
	uint32_t creator_revision;
} __attribute__((packed));
_Static_assert(sizeof(struct header) == 36, "ACPI 6.4, 5.2.6");

/* Generic address: where a register lies. */
struct gas {
	uint8_t space, bits, offset, access;
	uint64_t address;
} __attribute__((packed));

/* The parts that a hardware-reduced machine leaves zero are not named. */
struct fadt {
	struct header header;
	uint32_t facs, dsdt;
	uint8_t unused_1[65];
	uint16_t boot_arch;
	uint8_t unused_2;
	uint32_t flags;
	struct gas reset;
	uint8_t reset_value;
	uint16_t arm_boot_arch;
	uint8_t minor;
	uint64_t x_facs, x_dsdt;
	uint8_t unused_3[96];
	struct gas sleep_control, sleep_status;
	uint64_t hypervisor;
} __attribute__((packed));
_Static_assert(sizeof(struct fadt) == 276, "ACPI 6.4, 5.2.9");
_Static_assert(offsetof(struct fadt, flags) == 112, "ACPI 6.4, 5.2.9");

struct madt {
	struct header header;
	uint32_t lapic;
	uint32_t flags;
} __attribute__((packed));

struct madt_lapic {
	uint8_t type, length, processor, apic_id;
	uint32_t flags;
} __attribute__((packed));
_Static_assert(sizeof(struct madt_lapic) == 8, "ACPI 6.4, 5.2.12.2");

struct madt_ioapic {
	uint8_t type, length, id, reserved;
	uint32_t address, gsi_base;
} __attribute__((packed));
_Static_assert(sizeof(struct madt_ioapic) == 12, "ACPI 6.4, 5.2.12.3");

/* Tables one behind the other. */
struct writer {
	struct aml out; /* bytes with an end */
	uint64_t gpa;
};

static uint8_t sum_of(const void *bytes, size_t size)
{
	const uint8_t *b = bytes;
	uint8_t sum = 0;

	while (size-- > 0)
		sum = (uint8_t)(sum + *b++);
	return (uint8_t)-sum;
}

static struct header header_make(const char *signature, uint8_t revision, size_t length)
{
	struct header h = {
		.length = (uint32_t)length, .revision = revision, .oem_revision = 1, .creator_revision = 1
	};

	memcpy(h.signature, signature, sizeof(h.signature));
	memcpy(h.oem, "CARREL", sizeof(h.oem));
	memcpy(h.oem_table, "CARREL  ", sizeof(h.oem_table));
	memcpy(h.creator, "CARL", sizeof(h.creator));
	return h;
}

/* A table that begins with its header is complete: its sum goes in. Each begins
 * on eight bytes. Returns where the guest has it. */
static uint64_t table_end(struct writer *w, size_t start)
{
	struct header *h = (struct header *)(w->out.bytes + start);

	if (!w->out.full) {
		h->length = (uint32_t)(w->out.used - start);
		h->sum = 0;
		h->sum = sum_of(h, h->length);
	}
	while (w->out.used % 8 && !w->out.full)
		aml_byte(&w->out, 0);
	return w->gpa + start;
}

static uint64_t dsdt_write(struct writer *w, const struct acpi_config *config)
{
	struct header h = header_make("DSDT", 2, sizeof(h));
	size_t start = w->out.used;

	aml_bytes(&w->out, &h, sizeof(h));
	acpi_dsdt_devices(&w->out, config);
	return table_end(w, start);
}

static struct gas power_register(unsigned index)
{
	return (struct gas){ .space = 0, .bits = 8, .access = 1, .address = LAYOUT_POWER + index };
}

static uint64_t fadt_write(struct writer *w, uint64_t dsdt)
{
	struct fadt f = { .header = header_make("FACP", 6, sizeof(f)),
			  .dsdt = (uint32_t)dsdt,
			  .boot_arch = FADT_BOOT_ARCH,
			  .flags = FADT_HW_REDUCED | FADT_RESET_REGISTER | FADT_WBINVD | FADT_NO_BUTTONS,
			  .reset = power_register(ACPI_RESET),
			  .reset_value = ACPI_RESET_VALUE,
			  .minor = 4,
			  .x_dsdt = dsdt,
			  .sleep_control = power_register(ACPI_SLEEP_CONTROL),
			  .sleep_status = power_register(ACPI_SLEEP_STATUS) };
	size_t start = w->out.used;

	memcpy(&f.hypervisor, "Carrel", 6);
	aml_bytes(&w->out, &f, sizeof(f));
	return table_end(w, start);
}

static uint64_t madt_write(struct writer *w, const struct acpi_config *config)
{
	struct madt m = { .header = header_make("APIC", 5, sizeof(m)), .lapic = LAYOUT_LAPIC };
	struct madt_ioapic ioapic = { .type = MADT_IOAPIC,
				      .length = sizeof(ioapic),
				      .address = LAYOUT_IOAPIC };
	size_t start = w->out.used;

	aml_bytes(&w->out, &m, sizeof(m));
	for (unsigned i = 0; i < config->vcpus; i++) {
		struct madt_lapic lapic = { .type = MADT_LAPIC,
					    .length = sizeof(lapic),
					    .processor = (uint8_t)i,
					    .apic_id = (uint8_t)i,
					    .flags = 1 };

		aml_bytes(&w->out, &lapic, sizeof(lapic));
	}
	aml_bytes(&w->out, &ioapic, sizeof(ioapic));
	return table_end(w, start);
}

static uint64_t xsdt_write(struct writer *w, const uint64_t *tables, size_t count)
{
	struct header h = header_make("XSDT", 1, sizeof(h));
	size_t start = w->out.used;

	aml_bytes(&w->out, &h, sizeof(h));
	aml_bytes(&w->out, tables, count * sizeof(*tables));
	return table_end(w, start);
}

static void rsdp_fill(struct rsdp *ret, uint64_t xsdt)
{
	struct rsdp r = { .signature = { 'R', 'S', 'D', ' ', 'P', 'T', 'R', ' ' },
			  .oem = { 'C', 'A', 'R', 'R', 'E', 'L' },
			  .revision = 2,
			  .length = sizeof(r),
			  .xsdt = xsdt };

	r.sum = sum_of(&r, RSDP_SUM_1);
	r.extended_sum = sum_of(&r, sizeof(r));
	*ret = r;
}

int acpi_build(const struct acpi_config *config, uint8_t *area, size_t size, uint64_t gpa)
{
	struct writer w = { .out = { .bytes = area, .size = size }, .gpa = gpa };
	struct rsdp rsdp = { 0 };
	uint64_t tables[2], xsdt;

	if (config->vcpus < 1 || config->vcpus > ACPI_VCPUS_MAX || config->virtio > LAYOUT_VIRTIO_MAX)
		return -EINVAL;
	aml_bytes(&w.out, &rsdp, sizeof(rsdp)); /* filled in when the rest is there */
	aml_bytes(&w.out, (uint8_t[4]){ 0 }, 4);
	tables[0] = fadt_write(&w, dsdt_write(&w, config));
	tables[1] = madt_write(&w, config);
	xsdt = xsdt_write(&w, tables, 2);
	if (w.out.full)
		return -ENOSPC;
	rsdp_fill((struct rsdp *)area, xsdt);
	return 0;
}
