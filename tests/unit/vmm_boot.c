/* UNIT: vmm/machine vmm/virtio vmm/snapshot LIBS: -luring -lseccomp */
/* What a guest finds in its memory before its first instruction; and kernels that
 * are none: each is an error with a sentence, and nothing outside of RAM is touched. */
#include <asm/bootparam.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "vmm/machine/boot.h"
#include "vmm/machine/elf.h"
#include "vmm/machine/layout.h"

enum { KERNEL_AT = 0x1000000, TEXT = 0x2000, MEMORY = 64 << 20 };

/* A kernel of one segment and one PVH note, as the file has it. */
struct file {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2];
	Elf64_Nhdr note;
	char note_name[4];
	uint32_t note_entry;
	uint8_t text[TEXT];
};

static struct file kernel_make(void)
{
	struct file f = { .header = { .e_type = ET_EXEC,
				      .e_machine = EM_X86_64,
				      .e_entry = KERNEL_AT + 0x100,
				      .e_phoff = offsetof(struct file, segments),
				      .e_phentsize = sizeof(Elf64_Phdr),
				      .e_phnum = 2 },
			  .segments = { { .p_type = PT_LOAD,
					  .p_offset = offsetof(struct file, text),
					  .p_paddr = KERNEL_AT,
					  .p_filesz = TEXT,
					  .p_memsz = 2 * TEXT },
					{ .p_type = PT_NOTE,
					  .p_offset = offsetof(struct file, note),
					  .p_filesz = sizeof(Elf64_Nhdr) + 8 } },
			  .note = { .n_namesz = 4, .n_descsz = 4, .n_type = 18 },
			  .note_name = "Xen",
			  .note_entry = KERNEL_AT + 0x200 };

	memcpy(f.header.e_ident, ELFMAG, SELFMAG);
	f.header.e_ident[EI_CLASS] = ELFCLASS64;
	f.header.e_ident[EI_DATA] = ELFDATA2LSB;
	memset(f.text, 0x90, sizeof(f.text));
	return f;
}

static int fd_of(const void *bytes, size_t size)
{
	int fd = memfd_create("kernel", MFD_CLOEXEC);

	CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	return fd;
}

static int load(const struct file *f, size_t size, struct elf_kernel *ret)
{
	struct guest_memory m;
	struct problem p = { "" };
	int fd = fd_of(f, size), err;

	CHECK_INT(memory_new(&m, MEMORY), 0);
	err = elf_load(&m, fd, ret, &p);
	CHECK(err == 0 || p.text[0] != '\0');
	close(fd);
	memory_free(&m);
	return err;
}

static void a_kernel_is_loaded_and_its_rest_zeroed(void)
{
	struct file f = kernel_make();
	struct elf_kernel k;
	struct guest_memory m;
	int fd = fd_of(&f, sizeof(f));
	uint8_t *at;

	CHECK_INT(memory_new(&m, MEMORY), 0);
	at = memory_at(&m, KERNEL_AT, 2 * TEXT + 1);
	memset(at, 0xee, 2 * TEXT + 1);
	CHECK_INT(elf_load(&m, fd, &k, NULL), 0);
	CHECK(k.entry == KERNEL_AT + 0x100 && k.has_pvh && k.pvh_entry == KERNEL_AT + 0x200);
	CHECK(k.end == KERNEL_AT + 2 * TEXT);
	CHECK(at[0] == 0x90 && at[TEXT - 1] == 0x90 && at[TEXT] == 0 && at[2 * TEXT - 1] == 0 &&
	      at[2 * TEXT] == 0xee);
	close(fd);
	memory_free(&m);
}

static void files_that_are_no_kernel_are_refused(void)
{
	struct elf_kernel k;
	struct file f = kernel_make();

	for (size_t size = 0; size < sizeof(f); size += size < sizeof(f) - TEXT ? 1 : 997)
		CHECK_INT(load(&f, size, &k), -ENOEXEC);
	f.header.e_machine = EM_386;
	CHECK_INT(load(&f, sizeof(f), &k), -ENOEXEC);
	f = kernel_make();
	f.header.e_ident[EI_CLASS] = ELFCLASS32;
	CHECK_INT(load(&f, sizeof(f), &k), -ENOEXEC);
	f = kernel_make();
	f.header.e_phnum = 0xffff;
	CHECK_INT(load(&f, sizeof(f), &k), -ENOEXEC);
	f = kernel_make();
	f.header.e_phoff = UINT64_MAX - 8;
	CHECK_INT(load(&f, sizeof(f), &k), -ENOEXEC);
}

static void segments_outside_of_memory_are_refused(void)
{
	static const uint64_t places[] = {
		0,           LAYOUT_ACPI,     MEMORY - TEXT,     MEMORY,    MEMORY_HOLE - TEXT,
		MEMORY_HOLE, MEMORY_HOLE_END, UINT64_MAX - TEXT, UINT64_MAX
	};
	static const uint64_t sizes[] = { TEXT - 1, MEMORY, UINT64_MAX, UINT64_MAX - KERNEL_AT };
	struct elf_kernel k;
	struct file f;

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		f = kernel_make();
		f.segments[0].p_paddr = places[i];
		CHECK_INT(load(&f, sizeof(f), &k), -ENOEXEC);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		f = kernel_make();
		f.segments[0].p_memsz = sizes[i];
		CHECK_INT(load(&f, sizeof(f), &k), -ENOEXEC);
	}
	f = kernel_make();
	f.segments[0].p_offset = UINT64_MAX - 16;
	CHECK_INT(load(&f, sizeof(f), &k), -ENOEXEC);
}

static void entries_lie_inside_the_kernel(void)
{
	struct elf_kernel k;
	struct file f = kernel_make();

	f.header.e_entry = KERNEL_AT + 2 * TEXT;
	CHECK_INT(load(&f, sizeof(f), &k), -ENOEXEC);
	f = kernel_make();
	f.note_entry = 0x7000;
	CHECK_INT(load(&f, sizeof(f), &k), -ENOEXEC);
}

static void notes_that_do_not_add_up_are_passed_over(void)
{
	struct elf_kernel k;
	struct file f = kernel_make();

	f.note.n_namesz = UINT32_MAX;
	CHECK_INT(load(&f, sizeof(f), &k), 0);
	CHECK(!k.has_pvh);
	f = kernel_make();
	f.note.n_descsz = 8;
	CHECK_INT(load(&f, sizeof(f), &k), 0);
	CHECK(!k.has_pvh);
	f = kernel_make();
	f.segments[1].p_filesz = UINT64_MAX;
	CHECK_INT(load(&f, sizeof(f), &k), -ENOEXEC);
}

static void the_map_covers_memory_and_reserves_the_tables(void)
{
	static const uint64_t sizes[] = { 128ull << 20, MEMORY_HOLE, 5ull << 30 };
	struct boot_range r[BOOT_RANGES];

	for (size_t i = 0; i < 3; i++) {
		struct guest_memory m = { .size = sizes[i] };
		unsigned n = boot_map(&m, r);
		uint64_t ram = 0;

		CHECK_INT(n, sizes[i] > MEMORY_HOLE ? 4 : 3);
		for (unsigned j = 0; j < n; j++) {
			CHECK(j == 0 || r[j].start >= r[j - 1].start + r[j - 1].size);
			CHECK(r[j].start + r[j].size <= MEMORY_HOLE || r[j].start >= MEMORY_HOLE_END);
			ram += r[j].size;
			if (r[j].start <= LAYOUT_VMGENID && LAYOUT_VMGENID < r[j].start + r[j].size)
				CHECK_INT(r[j].type, BOOT_RESERVED);
		}
		CHECK(ram == sizes[i]);
	}
}

static int boot(struct guest_memory *m, const char *cmdline, size_t initrd_size, bool pvh,
		struct boot_entry *ret)
{
	struct file f = kernel_make();
	char *initrd = calloc(1, initrd_size);
	struct boot_files files = { .kernel_fd = fd_of(&f, sizeof(f)), .cmdline = cmdline, .pvh = pvh };
	int err;

	memset(initrd, 'i', initrd_size);
	files.initrd_fd = fd_of(initrd, initrd_size);
	CHECK_INT(memory_new(m, MEMORY), 0);
	err = boot_load(m, &files, ret, NULL);
	close(files.kernel_fd);
	close(files.initrd_fd);
	free(initrd);
	return err;
}

static void linux_finds_its_zero_page(void)
{
	struct guest_memory m;
	struct boot_entry entry;
	struct boot_params *z;

	CHECK_INT(boot(&m, "quiet", 5000, false, &entry), 0);
	CHECK(entry.address == KERNEL_AT + 0x100 && !entry.pvh);
	z = memory_at(&m, LAYOUT_ZERO_PAGE, sizeof(*z));
	CHECK_INT(z->hdr.boot_flag, 0xaa55);
	CHECK_INT(z->acpi_rsdp_addr, LAYOUT_ACPI);
	CHECK_INT(z->e820_entries, 3);
	CHECK_STR(memory_at(&m, z->hdr.cmd_line_ptr, 6), "quiet");
	CHECK_INT(z->hdr.ramdisk_size, 5000);
	CHECK_INT(z->hdr.ramdisk_image % MEMORY_PAGE, 0);
	CHECK(z->hdr.ramdisk_image + 5000u <= MEMORY && z->hdr.ramdisk_image >= KERNEL_AT + 2 * TEXT);
	CHECK(memcmp(memory_at(&m, z->hdr.ramdisk_image, 5000), "iiii", 4) == 0);
	memory_free(&m);
}

static void pvh_finds_its_start_info(void)
{
	struct guest_memory m;
	struct boot_entry entry;
	uint32_t magic;

	CHECK_INT(boot(&m, "quiet", 5000, true, &entry), 0);
	CHECK(entry.address == KERNEL_AT + 0x200 && entry.pvh);
	memcpy(&magic, memory_at(&m, LAYOUT_PVH_START, 4), 4);
	CHECK(magic == 0x336ec578);
	memory_free(&m);
}

static void what_does_not_fit_is_refused(void)
{
	struct guest_memory m;
	struct boot_entry entry;
	char *line = malloc(LAYOUT_CMDLINE_MAX + 1);

	CHECK_INT(boot(&m, "", MEMORY - KERNEL_AT, false, &entry), -ENOMEM);
	memory_free(&m);
	CHECK_INT(boot(&m, "", 2 * MEMORY, false, &entry), -ENOMEM);
	memory_free(&m);
	CHECK_INT(boot(&m, "", 0, false, &entry), -ENOEXEC);
	memory_free(&m);
	memset(line, 'x', LAYOUT_CMDLINE_MAX);
	line[LAYOUT_CMDLINE_MAX] = '\0';
	CHECK_INT(boot(&m, line, 100, false, &entry), -E2BIG);
	memory_free(&m);
	line[LAYOUT_CMDLINE_MAX - 1] = '\0';
	CHECK_INT(boot(&m, line, 100, false, &entry), 0);
	memory_free(&m);
	free(line);
}

int main(void)
{
	a_kernel_is_loaded_and_its_rest_zeroed();
	files_that_are_no_kernel_are_refused();
	segments_outside_of_memory_are_refused();
	entries_lie_inside_the_kernel();
	notes_that_do_not_add_up_are_passed_over();
	the_map_covers_memory_and_reserves_the_tables();
	linux_finds_its_zero_page();
	pvh_finds_its_start_info();
	what_does_not_fit_is_refused();
	return 0;
}
