/* UNIT: vmm/machine vmm/virtio vmm/snapshot LIBS: -luring -lseccomp */
/* The machine's parts that need no KVM: guest addresses, bus, loop, serial port,
 * CPUID's rules, ACPI tables. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "vmm/machine/acpi.h"
#include "vmm/machine/bus.h"
#include "vmm/machine/cpuid.h"
#include "vmm/machine/layout.h"
#include "vmm/machine/loop.h"
#include "vmm/machine/memory.h"
#include "vmm/machine/serial.h"

static void addresses_outside_of_one_region_have_no_pointer(void)
{
	struct guest_memory m = { .base = (uint8_t *)0x10000000, .size = MEMORY_HOLE + (1ull << 30) };

	CHECK(memory_at(&m, 0, 1) == m.base);
	CHECK(memory_at(&m, MEMORY_HOLE - 1, 1) == m.base + MEMORY_HOLE - 1);
	CHECK(memory_at(&m, MEMORY_HOLE_END, 1) == m.base + MEMORY_HOLE);
	CHECK(memory_at(&m, MEMORY_HOLE_END, 1ull << 30) == m.base + MEMORY_HOLE);
	CHECK(!memory_at(&m, 0, 0));
	CHECK(!memory_at(&m, MEMORY_HOLE - 1, 2));
	CHECK(!memory_at(&m, MEMORY_HOLE, 1));
	CHECK(!memory_at(&m, MEMORY_HOLE_END - 1, 1) && !memory_at(&m, MEMORY_HOLE_END - 1, 2));
	CHECK(!memory_at(&m, MEMORY_HOLE_END, (1ull << 30) + 1));
	CHECK(!memory_at(&m, UINT64_MAX, 1) && !memory_at(&m, UINT64_MAX, UINT64_MAX) &&
	      !memory_at(&m, 1, UINT64_MAX));
	m.size = 64 << 20;
	CHECK(!memory_at(&m, MEMORY_HOLE_END, 1) && !memory_at(&m, 64 << 20, 1) &&
	      memory_at(&m, (64 << 20) - 1, 1));
}

static void writes_of_the_monitor_are_kept_by_page(void)
{
	struct guest_memory m;

	CHECK_INT(memory_new(&m, MEMORY_MIN), 0);
	memory_mark_dirty(&m, 0, 1); /* not tracked: nothing happens */
	CHECK_INT(memory_track(&m), 0);
	memory_mark_dirty(&m, 4095, 2);
	memory_mark_dirty(&m, 64 * 4096, 4096);
	memory_mark_dirty(&m, MEMORY_MIN, 1);
	CHECK_INT(m.dirty[0], 3);
	CHECK_INT(m.dirty[1], 1);
	memory_free(&m);
}

static void a_memory_file_is_mapped_copy_on_write(void)
{
	struct guest_memory m;
	int fd = memfd_create("memory", MFD_CLOEXEC);
	char byte = 'f';

	CHECK_INT(ftruncate(fd, MEMORY_MIN), 0);
	CHECK(pwrite(fd, &byte, 1, 4096) == 1);
	CHECK_INT(memory_map(&m, fd, MEMORY_MIN * 2), -EINVAL);
	CHECK_INT(memory_map(&m, fd, MEMORY_MIN), 0);
	CHECK_INT(m.base[4096], 'f');
	m.base[4096] = 'm';
	CHECK(pread(fd, &byte, 1, 4096) == 1 && byte == 'f');
	memory_free(&m);
	CHECK_INT(memory_new(&m, MEMORY_MIN - 4096), -EINVAL);
	CHECK_INT(memory_new(&m, MEMORY_MIN + 1), -EINVAL);
	CHECK_INT(memory_new(&m, MEMORY_MAX + 4096), -EINVAL);
	close(fd);
}

static unsigned reads, writes;

static void count_read(void *arg, uint64_t offset, void *ret, unsigned len)
{
	CHECK(arg == &reads && offset + len <= 16);
	memset(ret, 0x11, len);
	reads++;
}

static void count_write(void *arg, uint64_t offset, const void *data, unsigned len)
{
	CHECK(arg == &reads && offset + len <= 16 && data);
	writes++;
}

static void accesses_reach_a_device_only_whole(void)
{
	struct bus_window w = {
		.base = 0x1000, .size = 16, .read = count_read, .write = count_write, .arg = &reads
	};
	struct bus_space s = { .count = 0 };
	uint64_t value = 0;

	CHECK_INT(bus_add(&s, &w), 0);
	CHECK_INT(bus_add(&s, &w), -EINVAL);
	w.base = UINT64_MAX - 3;
	CHECK_INT(bus_add(&s, &w), -EINVAL);
	for (w.base = 0x2000; s.count < BUS_WINDOWS_MAX; w.base += 16)
		CHECK_INT(bus_add(&s, &w), 0);
	CHECK_INT(bus_add(&s, &w), -ENOSPC);
	bus_read(&s, 0x100f, &value, 1);
	CHECK(value == 0x11 && reads == 1);
	bus_read(&s, 0x100f, &value, 2);
	CHECK(value == 0xffff && reads == 1);
	bus_read(&s, 0xfff, &value, 8);
	CHECK(value == UINT64_MAX && reads == 1);
	bus_write(&s, 0x1008, &value, 8);
	bus_write(&s, 0x1009, &value, 8);
	bus_write(&s, UINT64_MAX, &value, 8);
	CHECK_INT(writes, 1);
}

struct waker {
	struct loop *loop;
	int fd, calls;
};

static void on_readable(void *arg, uint32_t events)
{
	struct waker *w = arg;
	char byte;

	CHECK(events & EPOLLIN);
	CHECK(read(w->fd, &byte, 1) == 1);
	if (++w->calls == 3) {
		loop_unwatch(w->loop, w->fd);
		loop_stop(w->loop);
	}
}

static void the_loop_calls_until_it_is_stopped(void)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct waker w = { 0 };
	int fds[2];

	CHECK_INT(pipe(fds), 0);
	CHECK_INT(loop_new(&lock, &w.loop), 0);
	w.fd = fds[0];
	CHECK_INT(loop_watch(w.loop, -1, EPOLLIN, on_readable, &w), -EBADF);
	CHECK_INT(loop_watch(w.loop, fds[0], EPOLLIN, on_readable, &w), 0);
	CHECK_INT(loop_watch(w.loop, fds[0], EPOLLIN, on_readable, &w), 0);
	CHECK(write(fds[1], "abcd", 4) == 4);
	CHECK_INT(loop_run(w.loop), 0);
	CHECK_INT(w.calls, 3);
	loop_unwatch(w.loop, fds[0]);
	loop_free(w.loop);
	close(fds[0]);
	close(fds[1]);
}

static void serial_out(struct bus_space *ports, uint8_t byte)
{
	bus_write(ports, LAYOUT_SERIAL_PORT, &byte, 1);
}

static void the_serial_port_says_so_much_and_no_more(void)
{
	static char got[2 * SERIAL_OUTPUT_MAX];
	struct bus_space ports = { .count = 0 };
	struct bus_window w;
	struct serial s;
	int fd = memfd_create("console", MFD_CLOEXEC);

	serial_init(&s, fd, -1);
	w = serial_window(&s);
	CHECK_INT(bus_add(&ports, &w), 0);
	for (int i = 0; i < SERIAL_OUTPUT_MAX + 5000; i++)
		serial_out(&ports, (uint8_t)('a' + i % 26));
	serial_flush(&s);
	CHECK_INT(pread(fd, got, sizeof(got), 0), SERIAL_OUTPUT_MAX);
	CHECK(memcmp(got, "abcdefghijklmnopqrstuvwxyzab", 28) == 0);
	close(fd);
}

static void a_pipe_that_nobody_reads_holds_nobody_up(void)
{
	struct bus_space ports = { .count = 0 };
	struct bus_window w;
	struct serial s;
	int fds[2];

	CHECK_INT(pipe2(fds, O_NONBLOCK), 0);
	CHECK(fcntl(fds[1], F_SETPIPE_SZ, 4096) >= 4096);
	serial_init(&s, fds[1], -1);
	w = serial_window(&s);
	CHECK_INT(bus_add(&ports, &w), 0);
	for (int i = 0; i < 20000; i++)
		serial_out(&ports, i % 50 ? 'x' : '\n');
	close(fds[0]);
	close(fds[1]);
}

static uint8_t serial_reg(struct bus_space *ports, unsigned reg)
{
	uint8_t value;

	bus_read(ports, LAYOUT_SERIAL_PORT + reg, &value, 1);
	return value;
}

static void the_serial_port_is_what_linux_looks_for(void)
{
	struct bus_space ports = { .count = 0 };
	struct bus_window w;
	struct serial s;
	uint8_t loop = 0x1a, thre = 0x02;

	serial_init(&s, -1, -1);
	w = serial_window(&s);
	CHECK_INT(bus_add(&ports, &w), 0);
	CHECK_INT(serial_reg(&ports, 5) & 0x60, 0x60);
	bus_write(&ports, LAYOUT_SERIAL_PORT + 4, &loop, 1);
	CHECK_INT(serial_reg(&ports, 6) & 0xf0, 0x90);
	CHECK_INT(serial_reg(&ports, 2) & 0x0f, 0x01);
	bus_write(&ports, LAYOUT_SERIAL_PORT + 1, &thre, 1);
	CHECK_INT(serial_reg(&ports, 2) & 0x0f, 0x02);
	CHECK_INT(serial_reg(&ports, 2) & 0x0f, 0x01);
}

static struct kvm_cpuid_entry2 *leaf(struct cpuid *c, uint32_t function, uint32_t index)
{
	for (uint32_t i = 0; i < c->nent; i++)
		if (c->entries[i].function == function && c->entries[i].index == index)
			return &c->entries[i];
	CHECK(!"such a leaf");
	return NULL;
}

/* A processor that can everything. */
static struct cpuid everything(void)
{
	static const uint32_t leaves[][2] = { { 1, 0 },          { 7, 0 },          { 7, 1 },
					      { 0xa, 0 },        { 0xb, 0 },        { 0xb, 1 },
					      { 0xd, 0 },        { 0xd, 1 },        { 0xd, 2 },
					      { 0xd, 18 },       { 0x12, 0 },       { 0x1d, 1 },
					      { 0x40000001, 0 }, { 0x80000001, 0 }, { 0x80000008, 0 },
					      { 0x8000000a, 0 }, { 0x8000001e, 0 } };
	struct cpuid c = { .nent = sizeof(leaves) / sizeof(*leaves) };

	for (uint32_t i = 0; i < c.nent; i++)
		c.entries[i] = (struct kvm_cpuid_entry2){ .function = leaves[i][0],
							  .index = leaves[i][1],
							  .eax = UINT32_MAX,
							  .ebx = UINT32_MAX,
							  .ecx = UINT32_MAX,
							  .edx = UINT32_MAX };
	return c;
}

static bool leaf_is_zero(struct cpuid *c, uint32_t function, uint32_t index)
{
	const struct kvm_cpuid_entry2 *e = leaf(c, function, index);

	return !(e->eax | e->ebx | e->ecx | e->edx);
}

static void a_guest_virtualises_nothing_and_counts_nothing(void)
{
	struct cpuid c = everything();
	struct cpuid_rules r = { .apic_id = 3, .vcpus = 4, .deadline_timer = true };

	cpuid_normalise(&c, &r);
	CHECK(!(leaf(&c, 1, 0)->ecx & 1u << 5));
	CHECK(!(leaf(&c, 0x80000001, 0)->ecx & 1u << 2));
	CHECK(leaf_is_zero(&c, 0x8000000a, 0) && leaf_is_zero(&c, 0xa, 0) && leaf_is_zero(&c, 0x12, 0));
	CHECK(leaf_is_zero(&c, 0x1d, 1) && leaf_is_zero(&c, 0xd, 18) && !leaf_is_zero(&c, 0xd, 2));
	CHECK(!(leaf(&c, 0xd, 0)->eax & 3u << 17) && (leaf(&c, 0xd, 0)->eax & 7) == 7);
	CHECK(leaf(&c, 0x40000001, 0)->eax == UINT32_MAX);
}

static void a_guest_knows_its_place_among_its_processors(void)
{
	struct cpuid c = everything();
	struct cpuid_rules r = { .apic_id = 3, .vcpus = 5, .deadline_timer = true };

	cpuid_normalise(&c, &r);
	CHECK_INT(leaf(&c, 1, 0)->ebx >> 24, 3);
	CHECK_INT(leaf(&c, 1, 0)->ebx >> 16 & 0xff, 5);
	CHECK(leaf(&c, 1, 0)->edx & 1u << 28 && leaf(&c, 1, 0)->ecx & 1u << 31 &&
	      leaf(&c, 1, 0)->ecx & 1u << 24);
	CHECK_INT(leaf(&c, 0xb, 0)->edx, 3);
	CHECK_INT(leaf(&c, 0xb, 1)->eax, 3);
	CHECK_INT(leaf(&c, 0xb, 1)->ebx, 5);
	CHECK_INT(leaf(&c, 0x80000008, 0)->ecx, 4);
	r = (struct cpuid_rules){ .vcpus = 1 };
	c = everything();
	cpuid_normalise(&c, &r);
	CHECK(!(leaf(&c, 1, 0)->edx & 1u << 28) && !(leaf(&c, 1, 0)->ecx & 1u << 24));
}

static void where_xsetbv_is_not_seen_there_is_no_xsave(void)
{
	struct cpuid c = everything();
	struct cpuid_rules r = { .vcpus = 1, .no_xsave = true };

	cpuid_normalise(&c, &r);
	CHECK(!(leaf(&c, 1, 0)->ecx & (1u << 26 | 1u << 27 | 1u << 28 | 1u << 12 | 1u << 29)));
	CHECK(!(leaf(&c, 7, 0)->ebx & (1u << 5 | 1u << 16)));
	CHECK(leaf_is_zero(&c, 0xd, 0) && leaf_is_zero(&c, 0xd, 1) && leaf_is_zero(&c, 7, 1));
	CHECK(!(leaf(&c, 0x80000001, 0)->ecx & (1u << 11 | 1u << 16)));
}

static void models_differ_by_vendor_and_signature(void)
{
	struct kvm_cpuid_entry2 a[2] = { { .function = 0, .ebx = 1, .ecx = 2, .edx = 3 },
					 { .function = 1, .eax = 4 } };
	struct kvm_cpuid_entry2 b[2] = { a[1], a[0] };

	a[0].eax = 99; /* highest leaf: no part of it */
	CHECK(cpuid_same_model(a, 2, b, 2));
	CHECK(!cpuid_same_model(a, 2, b, 1) && !cpuid_same_model(a, 0, b, 0));
	b[0].eax++;
	CHECK(!cpuid_same_model(a, 2, b, 2));
	b[0].eax--;
	b[1].edx++;
	CHECK(!cpuid_same_model(a, 2, b, 2));
}

static uint8_t sum(const uint8_t *bytes, size_t size)
{
	uint8_t s = 0;

	while (size-- > 0)
		s = (uint8_t)(s + *bytes++);
	return s;
}

static const uint8_t *table(const uint8_t *area, uint64_t address)
{
	uint32_t length;

	CHECK(address >= LAYOUT_ACPI && address < LAYOUT_ACPI + LAYOUT_ACPI_SIZE);
	memcpy(&length, area + (address - LAYOUT_ACPI) + 4, sizeof(length));
	CHECK(length >= 36 && length <= LAYOUT_ACPI_SIZE - (address - LAYOUT_ACPI));
	CHECK_INT(sum(area + (address - LAYOUT_ACPI), length), 0);
	return area + (address - LAYOUT_ACPI);
}

static uint64_t u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static void tables_are_found_and_their_sums_are_right(void)
{
	static uint8_t area[LAYOUT_ACPI_SIZE];
	const struct acpi_config config = { .vcpus = 2, .virtio = 5 };
	const uint8_t *xsdt, *fadt;

	CHECK_INT(acpi_build(&config, area, sizeof(area), LAYOUT_ACPI), 0);
	CHECK(memcmp(area, "RSD PTR ", 8) == 0 && sum(area, 20) == 0 && sum(area, 36) == 0);
	xsdt = table(area, u64(area + 24));
	CHECK(memcmp(xsdt, "XSDT", 4) == 0);
	fadt = table(area, u64(xsdt + 36));
	CHECK(memcmp(fadt, "FACP", 4) == 0);
	CHECK(memcmp(table(area, u64(fadt + 140)), "DSDT", 4) == 0);
	CHECK(memcmp(table(area, u64(xsdt + 44)), "APIC", 4) == 0);
}

static void tables_that_do_not_fit_are_refused(void)
{
	static uint8_t area[LAYOUT_ACPI_SIZE];
	struct acpi_config config = { .vcpus = ACPI_VCPUS_MAX, .virtio = LAYOUT_VIRTIO_MAX };
	size_t needed = 0;

	CHECK_INT(acpi_build(&config, area, sizeof(area), LAYOUT_ACPI), 0);
	while (acpi_build(&config, area, needed, LAYOUT_ACPI) == -ENOSPC) {
		area[needed] = 0xa5;
		CHECK_INT(acpi_build(&config, area, needed, LAYOUT_ACPI), -ENOSPC);
		CHECK_INT(area[needed], 0xa5);
		needed++;
	}
	CHECK(needed > 1000 && needed < sizeof(area));
	config.vcpus = ACPI_VCPUS_MAX + 1;
	CHECK_INT(acpi_build(&config, area, sizeof(area), LAYOUT_ACPI), -EINVAL);
	config.vcpus = 0;
	CHECK_INT(acpi_build(&config, area, sizeof(area), LAYOUT_ACPI), -EINVAL);
	config = (struct acpi_config){ .vcpus = 1, .virtio = LAYOUT_VIRTIO_MAX + 1 };
	CHECK_INT(acpi_build(&config, area, sizeof(area), LAYOUT_ACPI), -EINVAL);
}

int main(void)
{
	addresses_outside_of_one_region_have_no_pointer();
	writes_of_the_monitor_are_kept_by_page();
	a_memory_file_is_mapped_copy_on_write();
	accesses_reach_a_device_only_whole();
	the_loop_calls_until_it_is_stopped();
	the_serial_port_says_so_much_and_no_more();
	a_pipe_that_nobody_reads_holds_nobody_up();
	the_serial_port_is_what_linux_looks_for();
	a_guest_virtualises_nothing_and_counts_nothing();
	a_guest_knows_its_place_among_its_processors();
	where_xsetbv_is_not_seen_there_is_no_xsave();
	models_differ_by_vendor_and_signature();
	tables_are_found_and_their_sums_are_right();
	tables_that_do_not_fit_are_refused();
	return 0;
}
