#include "elf.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "layout.h"

enum {
	/* Linux has five. */
	SEGMENTS_MAX = 32,
	/* Linux' notes are half a kilobyte. */
	NOTES_MAX = 16 * 1024,
	/* XEN_ELFNOTE_PHYS32_ENTRY: where PVH enters the kernel. */
	NOTE_PVH_ENTRY = 18,
};

/* Whole, or -ENOEXEC where the file ends before. */
static int read_at(int fd, void *ret, uint64_t size, uint64_t offset)
{
	uint8_t *to = ret;

	while (size > 0) {
		ssize_t n = offset > INT64_MAX ? 0 : pread(fd, to, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENOEXEC;
		to += n;
		offset += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}

static int header_read(int fd, Elf64_Ehdr *ret, struct problem *p)
{
	int err = read_at(fd, ret, sizeof(*ret), 0);

	if (err)
		return problem_set(p, err, "the kernel is no ELF file");
	if (memcmp(ret->e_ident, ELFMAG, SELFMAG) != 0 || ret->e_ident[EI_CLASS] != ELFCLASS64 ||
	    ret->e_ident[EI_DATA] != ELFDATA2LSB || ret->e_machine != EM_X86_64)
		return problem_set(p, -ENOEXEC, "the kernel is no ELF file for this processor");
	if (ret->e_phentsize != sizeof(Elf64_Phdr) || ret->e_phnum == 0 || ret->e_phnum > SEGMENTS_MAX)
		return problem_set(p, -ENOEXEC, "the kernel has no usable table of segments");
	return 0;
}

static int segment_load(const struct guest_memory *m, int fd, const Elf64_Phdr *s, struct elf_kernel *k,
			struct problem *p)
{
	uint8_t *to = memory_at(m, s->p_paddr, s->p_memsz);
	int err;

	if (s->p_memsz == 0)
		return 0;
	if (s->p_filesz > s->p_memsz)
		return problem_set(p, -ENOEXEC, "a segment of the kernel is larger than its memory");
	if (!to || s->p_paddr < LAYOUT_HIGH_RAM || s->p_paddr >= MEMORY_HOLE)
		return problem_set(p, -ENOEXEC, "a segment of the kernel does not fit into memory");
	err = read_at(fd, to, s->p_filesz, s->p_offset);
	if (err)
		return problem_set(p, err, "the kernel is cut off");
	memset(to + s->p_filesz, 0, s->p_memsz - s->p_filesz);
	if (k->end < s->p_paddr + s->p_memsz)
		k->end = s->p_paddr + s->p_memsz;
	return 0;
}

static uint64_t note_aligned(uint64_t size)
{
	return (size + 3) & ~3ull;
}

/* Notes are {name size, data size, type, name, data}, each padded to four bytes. */
static void notes_parse(const uint8_t *notes, uint64_t size, struct elf_kernel *k)
{
	uint64_t at = 0;
	Elf64_Nhdr head;

	while (size - at >= sizeof(head)) {
		memcpy(&head, notes + at, sizeof(head));
		at += sizeof(head);
		if (note_aligned(head.n_namesz) > size - at)
			return;
		const uint8_t *name = notes + at;
		at += note_aligned(head.n_namesz);
		if (note_aligned(head.n_descsz) > size - at)
			return;
		if (head.n_type == NOTE_PVH_ENTRY && head.n_namesz == 4 && memcmp(name, "Xen", 4) == 0 &&
		    head.n_descsz >= sizeof(k->pvh_entry)) {
			memcpy(&k->pvh_entry, notes + at, sizeof(k->pvh_entry));
			k->has_pvh = true;
		}
		at += note_aligned(head.n_descsz);
	}
}

static int notes_read(int fd, const Elf64_Phdr *s, struct elf_kernel *k, struct problem *p)
{
	uint8_t notes[NOTES_MAX];
	int err;

	if (s->p_filesz > sizeof(notes))
		return problem_set(p, -ENOEXEC, "the kernel's notes are too long");
	err = read_at(fd, notes, s->p_filesz, s->p_offset);
	if (err)
		return problem_set(p, err, "the kernel is cut off");
	notes_parse(notes, s->p_filesz, k);
	return 0;
}

static bool inside(const struct elf_kernel *k, uint64_t entry)
{
	return entry >= LAYOUT_HIGH_RAM && entry < k->end;
}

int elf_load(const struct guest_memory *m, int fd, struct elf_kernel *ret, struct problem *p)
{
	Elf64_Ehdr header;
	Elf64_Phdr s;
	struct elf_kernel k = { 0 };
	int err = header_read(fd, &header, p);

	for (unsigned i = 0; !err && i < header.e_phnum; i++) {
		err = read_at(fd, &s, sizeof(s), header.e_phoff + i * sizeof(s));
		if (err)
			return problem_set(p, err, "the kernel's table of segments is cut off");
		if (s.p_type == PT_LOAD)
			err = segment_load(m, fd, &s, &k, p);
		else if (s.p_type == PT_NOTE)
			err = notes_read(fd, &s, &k, p);
	}
	if (err)
		return err;
	k.entry = header.e_entry;
	if (!inside(&k, k.entry) || (k.has_pvh && !inside(&k, k.pvh_entry)))
		return problem_set(p, -ENOEXEC, "the kernel's entry lies outside of it");
	*ret = k;
	return 0;
}
