/* UNIT: vmm/machine vmm/virtio vmm/snapshot LIBS: -luring */
/* The state file: what was written comes back, and anything else is refused; the memory file has
 * holes where memory is zero. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "vmm/snapshot/crc64.h"
#include "vmm/snapshot/memory_save.h"
#include "vmm/snapshot/state.h"

enum { VCPUS = 2 };

static struct state *state_make(void)
{
	struct state *s = state_new(VCPUS);

	CHECK(s);
	s->header.memory_size = MEMORY_MIN;
	s->header.devices = 2;
	s->vcpu[1].regs.rip = 0x1234;
	s->vcpu[0].msr_count = STATE_MSRS_MAX;
	s->vcpu[1].cpuid_count = CPUID_ENTRIES_MAX;
	state_seal(s);
	return s;
}

static int file_new(void)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static void the_checksum_is_the_known_one(void)
{
	CHECK(crc64("123456789", 9) == 0x995dc9bbdf1939faull);
	CHECK(crc64("", 0) == 0);
}

static void what_was_written_comes_back(void)
{
	struct state *s = state_make(), *r;
	int fd = file_new();

	CHECK_INT(state_write(s, fd), 0);
	CHECK_INT(state_read(fd, &r, NULL), 0);
	CHECK(memcmp(s, r, state_size(VCPUS)) == 0);
	free(r);
	CHECK(ftruncate(fd, (off_t)state_size(VCPUS) + 100) == 0);
	CHECK_INT(state_write(s, fd), 0); /* over a longer one */
	CHECK_INT(state_read(fd, &r, NULL), 0);
	free(r);
	free(s);
	close(fd);
}

static void refuse(int fd)
{
	struct state *r;
	struct problem p = { "" };

	CHECK_INT(state_read(fd, &r, &p), -EINVAL);
	CHECK(p.text[0] != '\0');
}

/* As a kill -9 leaves it: everything but what is written last. */
static void a_half_written_file_is_refused(void)
{
	struct state *s = state_make();
	struct state_header none = { 0 };
	int fd = file_new();

	refuse(fd);
	CHECK_INT(state_write(s, fd), 0);
	CHECK(pwrite(fd, &none, sizeof(none), 0) == sizeof(none));
	refuse(fd);
	for (size_t size = 0; size < state_size(VCPUS); size += 1009) {
		CHECK_INT(state_write(s, fd), 0);
		CHECK(ftruncate(fd, (off_t)size) == 0);
		refuse(fd);
	}
	free(s);
	close(fd);
}

static void each_changed_byte_is_found(void)
{
	struct state *s = state_make();
	size_t size = state_size(VCPUS);

	CHECK_INT(state_check(s, size, NULL), 0);
	for (size_t i = 0; i < size; i += i < 4096 ? 1 : 241) {
		((uint8_t *)s)[i] ^= 0x40;
		CHECK_INT(state_check(s, size, NULL), -EINVAL);
		((uint8_t *)s)[i] ^= 0x40;
	}
	CHECK_INT(state_check(s, size, NULL), 0);
	free(s);
}

static int checked(struct state *s)
{
	size_t size = state_size(VCPUS);
	int err;

	state_seal(s);
	err = state_check(s, size, NULL);
	free(s);
	return err;
}

static void counts_that_do_not_hold_are_refused_with_a_right_sum(void)
{
	struct state *s = state_make();

	s->vcpu[1].cpuid_count = CPUID_ENTRIES_MAX + 1;
	CHECK_INT(checked(s), -EINVAL);
	s = state_make();
	s->vcpu[0].msr_count = UINT32_MAX;
	CHECK_INT(checked(s), -EINVAL);
	s = state_make();
	s->header.devices = MACHINE_DEVICES_MAX + 1;
	CHECK_INT(checked(s), -EINVAL);
	s = state_make();
	s->header.memory_size = MEMORY_MIN + 1;
	CHECK_INT(checked(s), -EINVAL);
	s = state_make();
	s->header.memory_size = UINT64_MAX;
	CHECK_INT(checked(s), -EINVAL);
}

static void zero_pages_are_holes_in_the_memory_file(void)
{
	struct guest_memory m, back;
	struct stat st;
	int fd = file_new();

	CHECK_INT(memory_new(&m, MEMORY_MIN), 0);
	memset(m.base + 4096, 1, 1);
	m.base[3 * 4096 + 4095] = 2;
	memset(m.base + MEMORY_MIN - 8192, 3, 8192);
	CHECK(pwrite(fd, "old", 3, 2 * 4096) == 3);
	CHECK_INT(memory_save(&m, fd), 0);
	CHECK(fstat(fd, &st) == 0 && (uint64_t)st.st_size == MEMORY_MIN);
	CHECK_INT(st.st_blocks * 512 / 4096, 4);
	CHECK_INT(memory_map(&back, fd, MEMORY_MIN), 0);
	CHECK(memcmp(m.base, back.base, MEMORY_MIN) == 0);
	memory_free(&back);
	memory_free(&m);
	close(fd);
}

int main(void)
{
	the_checksum_is_the_known_one();
	what_was_written_comes_back();
	a_half_written_file_is_refused();
	each_changed_byte_is_found();
	counts_that_do_not_hold_are_refused_with_a_right_sum();
	zero_pages_are_holes_in_the_memory_file();
	return 0;
}
