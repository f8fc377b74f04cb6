/* UNIT: vmm/machine vmm/virtio vmm/snapshot LIBS: -luring -lseccomp */
/* The state file: what was written comes back, and anything else is refused; the memory file has
 * holes where memory is zero. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "vmm/snapshot/crc64.h"
#include "vmm/snapshot/memory_save.h"
#include "vmm/snapshot/pages_file.h"
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

/* Memory from a file, a page of each kind changed, and what is saved of it. */
struct clone {
	struct guest_memory memory;
	struct state *state;
	int memory_fd, pages_fd;
};

static struct clone clone_make(void)
{
	struct clone c = { .state = state_make(), .memory_fd = file_new(), .pages_fd = file_new() };
	uint8_t page[4096];

	memset(page, 'f', sizeof(page));
	for (off_t at = 0; at < (off_t)MEMORY_MIN; at += 4096)
		CHECK(pwrite(c.memory_fd, page, sizeof(page), at) == sizeof(page));
	CHECK_INT(memory_map(&c.memory, c.memory_fd, MEMORY_MIN), 0);
	CHECK_INT(memory_track(&c.memory), 0);
	memset(c.memory.base + 8 * 4096, 'd', 2 * 4096);
	memset(c.memory.base + 10 * 4096, 0, 4096);
	memset(c.memory.base + MEMORY_MIN - 4096, 'e', 4096);
	memory_mark_dirty(&c.memory, 8 * 4096, 3 * 4096);
	memory_mark_dirty(&c.memory, MEMORY_MIN - 4096, 4096);
	CHECK_INT(pages_file_save(&c.memory, c.memory_fd, c.state, c.pages_fd, NULL), 0);
	return c;
}

static void clone_free(struct clone *c)
{
	memory_free(&c->memory);
	free(c->state);
	close(c->memory_fd);
	close(c->pages_fd);
}

static int pages_load(const struct clone *c, struct guest_memory *ret)
{
	CHECK_INT(memory_map(ret, c->memory_fd, MEMORY_MIN), 0);
	CHECK_INT(memory_track(ret), 0);
	return pages_file_load(ret, c->memory_fd, c->state, c->pages_fd, NULL);
}

static void changed_pages_come_back_over_the_memory_file(void)
{
	struct clone c = clone_make();
	struct guest_memory back;
	struct stat st;

	CHECK(fstat(c.pages_fd, &st) == 0 && st.st_size < 5 * 4096);
	CHECK_INT(pages_load(&c, &back), 0);
	CHECK(memcmp(back.base, c.memory.base, MEMORY_MIN) == 0);
	for (uint64_t i = 0; i < MEMORY_MIN / 4096; i++)
		CHECK_INT(memory_is_dirty(&back, i), (i >= 8 && i <= 10) || i == MEMORY_MIN / 4096 - 1);
	memory_free(&back);
	clone_free(&c);
}

static void pages_of_another_moment_are_refused(void)
{
	struct clone c = clone_make();
	struct guest_memory back;
	struct stat st;

	c.state->vcpu[0].regs.rax++;
	state_seal(c.state);
	CHECK_INT(pages_load(&c, &back), -EINVAL);
	memory_free(&back);
	clone_free(&c);

	c = clone_make();
	CHECK(pwrite(c.memory_fd, "x", 1, 0) == 1);
	CHECK_INT(pages_load(&c, &back), -EINVAL);
	memory_free(&back);
	clone_free(&c);

	c = clone_make();
	CHECK(fstat(c.pages_fd, &st) == 0 && ftruncate(c.pages_fd, st.st_size - 1) == 0);
	CHECK_INT(pages_load(&c, &back), -EINVAL);
	memory_free(&back);
	clone_free(&c);
}

int main(void)
{
	the_checksum_is_the_known_one();
	what_was_written_comes_back();
	a_half_written_file_is_refused();
	each_changed_byte_is_found();
	counts_that_do_not_hold_are_refused_with_a_right_sum();
	zero_pages_are_holes_in_the_memory_file();
	changed_pages_come_back_over_the_memory_file();
	pages_of_another_moment_are_refused();
	return 0;
}
