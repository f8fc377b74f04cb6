#include "boot.h"

#include <asm/bootparam.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf.h"
#include "layout.h"

struct initrd {
	uint64_t start, size;
};

unsigned boot_map(const struct guest_memory *m, struct boot_range ret[BOOT_RANGES])
{
	unsigned n = 0;

	ret[n++] = (struct boot_range){ 0, LAYOUT_LOW_RAM_END, BOOT_RAM };
	ret[n++] = (struct boot_range){ LAYOUT_LOW_RAM_END, LAYOUT_HIGH_RAM - LAYOUT_LOW_RAM_END,
					BOOT_RESERVED };
	ret[n++] = (struct boot_range){ LAYOUT_HIGH_RAM, memory_low(m) - LAYOUT_HIGH_RAM, BOOT_RAM };
	if (memory_high(m) > 0)
		ret[n++] = (struct boot_range){ MEMORY_HOLE_END, memory_high(m), BOOT_RAM };
	return n;
}

/* As high as it goes below the hole: the kernel grows upwards behind its end. */
static int initrd_load(const struct guest_memory *m, int fd, uint64_t kernel_end, struct initrd *ret,
		       struct problem *p)
{
	struct stat st;
	uint64_t size, start, done = 0;
	uint8_t *to;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) != 0 || st.st_size <= 0)
		return problem_set(p, -ENOEXEC, "the initramfs is no file with something in it");
	size = (uint64_t)st.st_size;
	if (kernel_end > memory_low(m) || size > memory_low(m) - kernel_end)
		return problem_set(p, -ENOMEM, "the initramfs does not fit into memory");
	start = (memory_low(m) - size) & ~(MEMORY_PAGE - 1);
	to = start < kernel_end ? NULL : memory_at(m, start, size);
	if (!to)
		return problem_set(p, -ENOMEM, "the initramfs does not fit into memory");
	while (done < size) {
		ssize_t n = pread(fd, to + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return problem_set(p, n < 0 ? -errno : -EIO, "the initramfs cannot be read");
		done += (uint64_t)n;
	}
	*ret = (struct initrd){ start, size };
	return 0;
}

/* Linux' boot protocol: Documentation/arch/x86/zero-page.rst. */
static void zero_page_write(const struct guest_memory *m, const struct initrd *initrd, size_t cmdline_size)
{
	struct boot_range map[BOOT_RANGES];
	struct boot_params *z = memory_at(m, LAYOUT_ZERO_PAGE, sizeof(*z));
	unsigned n = boot_map(m, map);

	memset(z, 0, sizeof(*z));
	z->hdr.boot_flag = 0xaa55;
	z->hdr.header = 0x53726448; /* "HdrS" */
	z->hdr.version = 0x020f;
	z->hdr.type_of_loader = 0xff; /* none that has a number */
	z->hdr.loadflags = LOADED_HIGH;
	z->hdr.kernel_alignment = 0x01000000;
	z->hdr.cmd_line_ptr = LAYOUT_CMDLINE;
	z->hdr.cmdline_size = (uint32_t)cmdline_size;
	z->hdr.ramdisk_image = (uint32_t)initrd->start;
	z->hdr.ramdisk_size = (uint32_t)initrd->size;
	z->acpi_rsdp_addr = LAYOUT_ACPI;
	z->e820_entries = (uint8_t)n;
	for (unsigned i = 0; i < n; i++)
		z->e820_table[i] = (struct boot_e820_entry){ map[i].start, map[i].size, map[i].type };
}

/* The first gigabyte as it is, in pages of 2 MiB; and a flat 64-bit code and data
 * segment where Linux' document wants them (selectors 0x10 and 0x18). */
static void long_mode_write(const struct guest_memory *m)
{
	static const uint64_t gdt[] = { 0, 0, 0x00af9b000000ffff, 0x00cf93000000ffff };
	uint64_t *pml4 = memory_at(m, LAYOUT_PML4, 4096), *pdpt = memory_at(m, LAYOUT_PDPT, 4096);
	uint64_t *pd = memory_at(m, LAYOUT_PD, 4096);

	_Static_assert(LAYOUT_GDT + sizeof(gdt) <= LAYOUT_IDT, "they lie side by side");
	memcpy(memory_at(m, LAYOUT_GDT, sizeof(gdt)), gdt, sizeof(gdt));
	memset(pml4, 0, 4096);
	memset(pdpt, 0, 4096);
	pml4[0] = LAYOUT_PDPT | 0x03; /* present, writable */
	pdpt[0] = LAYOUT_PD | 0x03;
	for (uint64_t i = 0; i < 512; i++)
		pd[i] = (i << 21) | 0x83; /* and large */
}

/* Xen's hvm_start_info, version 1, as QEMU and Linux have it. */
struct pvh_start_info {
	uint32_t magic, version, flags, modules;
	uint64_t module_list, cmdline, rsdp, map;
	uint32_t map_entries, reserved;
};
_Static_assert(sizeof(struct pvh_start_info) == 56, "fixed by Xen");

struct pvh_module {
	uint64_t start, size, cmdline, reserved;
};

struct pvh_range {
	uint64_t start, size;
	uint32_t type, reserved;
};
_Static_assert(sizeof(struct pvh_range) == 24, "fixed by Xen");

static void pvh_write(const struct guest_memory *m, const struct initrd *initrd)
{
	struct boot_range map[BOOT_RANGES];
	struct pvh_start_info *info = memory_at(m, LAYOUT_PVH_START, sizeof(*info));
	struct pvh_module *module = memory_at(m, LAYOUT_PVH_MODULE, sizeof(*module));
	struct pvh_range *ranges = memory_at(m, LAYOUT_ZERO_PAGE, BOOT_RANGES * sizeof(*ranges));
	unsigned n = boot_map(m, map);

	*module = (struct pvh_module){ .start = initrd->start, .size = initrd->size };
	for (unsigned i = 0; i < n; i++)
		ranges[i] = (struct pvh_range){ map[i].start, map[i].size, map[i].type, 0 };
	*info = (struct pvh_start_info){
		.magic = 0x336ec578,
		.version = 1,
		.modules = initrd->size > 0,
		.module_list = LAYOUT_PVH_MODULE,
		.cmdline = LAYOUT_CMDLINE,
		.rsdp = LAYOUT_ACPI,
		.map = LAYOUT_ZERO_PAGE,
		.map_entries = n,
	};
}

int boot_load(const struct guest_memory *m, const struct boot_files *files, struct boot_entry *ret,
	      struct problem *p)
{
	size_t cmdline_size = strlen(files->cmdline);
	struct initrd initrd = { 0 };
	struct elf_kernel kernel;
	int err;

	if (cmdline_size >= LAYOUT_CMDLINE_MAX)
		return problem_set(p, -E2BIG, "the kernel's command line is longer than %d bytes",
				   LAYOUT_CMDLINE_MAX - 1);
	err = elf_load(m, files->kernel_fd, &kernel, p);
	if (err)
		return err;
	if (files->pvh && !kernel.has_pvh)
		return problem_set(p, -ENOEXEC, "the kernel has no PVH entry");
	err = initrd_load(m, files->initrd_fd, kernel.end, &initrd, p);
	if (err)
		return err;
	memcpy(memory_at(m, LAYOUT_CMDLINE, LAYOUT_CMDLINE_MAX), files->cmdline, cmdline_size + 1);
	if (files->pvh) {
		pvh_write(m, &initrd);
	} else {
		zero_page_write(m, &initrd, cmdline_size);
		long_mode_write(m);
	}
	*ret = (struct boot_entry){ .address = files->pvh ? kernel.pvh_entry : kernel.entry,
				    .pvh = files->pvh };
	return 0;
}
