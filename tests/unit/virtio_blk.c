/* UNIT: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* A disk on io_uring: normal work, what a driver may get wrong, and what the
 * host may. */
#include <fcntl.h>
#include <linux/virtio_blk.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "virtio_driver.h"
#include "vmm/virtio/blk.h"
#include "vmm/virtio/blk_ring.h"

enum { SECTOR = 512, DISK_BYTES = 1 << 20, DISK_SECTORS = DISK_BYTES / SECTOR, NO_STATUS = 0xee };

static struct driver v;
static int disk;
static uint64_t header_gpa, status_gpa;

static void begin_on(int fd, unsigned flags)
{
	struct virtio_device *d;

	stage_start(RAM_BYTES);
	disk = fd;
	CHECK(fd >= 0);
	CHECK_INT(ftruncate(fd, DISK_BYTES), 0);
	CHECK_INT(blk_new(&ram, &the_loop, dup(fd), flags, "scratch", &d), 0);
	driver_start(&v, d, d->features);
	header_gpa = buffer(sizeof(struct virtio_blk_outhdr));
	status_gpa = buffer(1);
}

static void begin(unsigned flags)
{
	begin_on(memfd_create("disk", MFD_CLOEXEC | MFD_ALLOW_SEALING), flags);
}

static void end(void)
{
	virtio_device_free(v.d);
	close(disk);
	stage_end();
}

static uint64_t filled(uint32_t bytes, int with)
{
	uint64_t gpa = buffer(bytes);

	memset(at(gpa), with, bytes);
	return gpa;
}

static void header_set(uint32_t type, uint64_t sector)
{
	*(struct virtio_blk_outhdr *)at(header_gpa) =
		(struct virtio_blk_outhdr){ .type = type, .sector = sector };
	*(uint8_t *)at(status_gpa) = NO_STATUS;
}

/* Header, the data's pieces and status into the ring. */
static uint16_t ask(uint32_t type, uint64_t sector, const struct piece *data, unsigned n)
{
	struct piece all[QUEUE_SIZE] = { { header_gpa, sizeof(struct virtio_blk_outhdr), false } };

	header_set(type, sector);
	for (unsigned i = 0; i < n; i++)
		all[1 + i] = data[i];
	all[n + 1] = (struct piece){ status_gpa, 1, true };
	return chain_add(&v, 0, all, n + 2);
}

static int answered(uint16_t head)
{
	CHECK_INT(used_wait(&v, 0).id, head);
	return *(uint8_t *)at(status_gpa);
}

static int do_request(uint32_t type, uint64_t sector, const struct piece *data, unsigned n)
{
	uint16_t head = ask(type, sector, data, n);

	kick(&v, 0);
	return answered(head);
}

static int do_one(uint32_t type, uint64_t sector, uint64_t gpa, uint32_t len)
{
	return do_request(type, sector, &(struct piece){ gpa, len, type != VIRTIO_BLK_T_OUT }, 1);
}

static bool all_bytes(uint64_t gpa, uint32_t len, int are)
{
	const uint8_t *bytes = at(gpa);

	for (uint32_t i = 0; i < len; i++)
		if (bytes[i] != are)
			return false;
	return true;
}

static void what_is_written_is_read_again(void)
{
	char path[] = "/tmp/carrel-disk-XXXXXX";
	uint64_t from, to;

	begin_on(mkstemp(path), BLK_DURABLE);
	unlink(path);
	from = filled(4096, 'a');
	to = filled(4096, 0);
	CHECK_INT(do_one(VIRTIO_BLK_T_OUT, 8, from, 4096), VIRTIO_BLK_S_OK);
	CHECK_INT(do_request(VIRTIO_BLK_T_FLUSH, 0, NULL, 0), VIRTIO_BLK_S_OK);
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, 8, to, 4096), VIRTIO_BLK_S_OK);
	CHECK(all_bytes(to, 4096, 'a'));
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, 16, to, 4096), VIRTIO_BLK_S_OK);
	CHECK(all_bytes(to, 4096, 0));
	end();
}

/* cloud-hypervisor #7802: not only the first; and cut anywhere. */
static void every_piece_of_a_chain_counts(void)
{
	struct piece out[3], in[4];
	uint64_t from, to;

	begin(0);
	from = filled(1024, 'x');
	to = filled(1024, 0);
	memset((char *)at(from) + 700, 'y', 324);
	out[0] = (struct piece){ from, 100, false };
	out[1] = (struct piece){ from + 100, 600, false };
	out[2] = (struct piece){ from + 700, 324, false };
	CHECK_INT(do_request(VIRTIO_BLK_T_OUT, 3, out, 3), VIRTIO_BLK_S_OK);
	in[0] = (struct piece){ to, 1, true };
	in[1] = (struct piece){ to + 1, 511, true };
	in[2] = (struct piece){ to + 512, 1, true };
	in[3] = (struct piece){ to + 513, 511, true };
	CHECK_INT(do_request(VIRTIO_BLK_T_IN, 3, in, 4), VIRTIO_BLK_S_OK);
	CHECK(memcmp(at(from), at(to), 1024) == 0);
	end();
}

/* The spec leaves the cuts to the driver: header in pieces, status with data. */
static void header_and_status_may_be_cut_anywhere(void)
{
	struct piece all[4];
	uint64_t data;

	begin(0);
	data = filled(513, 0x55);
	CHECK_INT(pwrite(disk, "sector one", 10, SECTOR), 10);
	header_set(VIRTIO_BLK_T_IN, 1);
	all[0] = (struct piece){ header_gpa, 1, false };
	all[1] = (struct piece){ header_gpa + 1, 7, false };
	all[2] = (struct piece){ header_gpa + 8, 8, false };
	all[3] = (struct piece){ data, 513, true };
	CHECK_INT(request(&v, 0, all, 4), 513);
	CHECK(memcmp(at(data), "sector one", 10) == 0);
	CHECK_INT(((uint8_t *)at(data))[512], VIRTIO_BLK_S_OK);
	end();
}

static void disk_tells_its_name_and_size(void)
{
	uint64_t gpa;

	begin(0);
	gpa = filled(32, 0x7f);
	CHECK_INT(do_one(VIRTIO_BLK_T_GET_ID, 0, gpa, 20), VIRTIO_BLK_S_OK);
	CHECK(memcmp(at(gpa), "scratch\0\0\0\0\0\0\0\0\0\0\0\0\0", 20) == 0);
	CHECK(all_bytes(gpa + 20, 12, 0x7f));
	CHECK_INT(do_one(VIRTIO_BLK_T_GET_ID, 0, gpa, 1), VIRTIO_BLK_S_OK);
	CHECK_INT(reg(&v, 0x100), DISK_SECTORS);
	CHECK_INT(reg(&v, 0x104), 0);
	end();
}

static void what_is_wrong_is_an_error(void)
{
	static const struct {
		uint32_t type;
		uint64_t sector;
		uint32_t len;
		bool in;
	} wrong[] = {
		{ VIRTIO_BLK_T_IN, 0, 511, true },
		{ VIRTIO_BLK_T_IN, 0, 513, true },
		{ VIRTIO_BLK_T_IN, DISK_SECTORS, 512, true },
		{ VIRTIO_BLK_T_IN, DISK_SECTORS - 1, 1024, true },
		{ VIRTIO_BLK_T_IN, UINT64_MAX, 512, true },
		{ VIRTIO_BLK_T_IN, UINT64_MAX / SECTOR, 512, true },
		{ VIRTIO_BLK_T_OUT, UINT64_MAX - 1, 1024, false },
		{ VIRTIO_BLK_T_OUT, DISK_SECTORS - 1, 1024, false },
		{ VIRTIO_BLK_T_IN, 0, 512, false }, /* wrong direction */
		{ VIRTIO_BLK_T_OUT, 0, 512, true },
		{ VIRTIO_BLK_T_DISCARD, 0, 512, true },
		{ VIRTIO_BLK_T_DISCARD, 0, 15, false },
		{ VIRTIO_BLK_T_DISCARD, 0, 16 * 9, false },
	};
	uint64_t gpa;

	begin(0);
	gpa = filled(2048, 0xff);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK_INT(do_request(wrong[i].type, wrong[i].sector,
				     &(struct piece){ gpa, wrong[i].len, wrong[i].in }, 1),
			  VIRTIO_BLK_S_IOERR);
	CHECK_INT(do_request(VIRTIO_BLK_T_IN, 0, NULL, 0), VIRTIO_BLK_S_IOERR);
	CHECK_INT(do_request(VIRTIO_BLK_T_FLUSH, 0, NULL, 0), VIRTIO_BLK_S_UNSUPP);
	CHECK_INT(do_one(VIRTIO_BLK_T_WRITE_ZEROES, 0, gpa, 16), VIRTIO_BLK_S_UNSUPP);
	CHECK_INT(do_one(UINT32_MAX, 0, gpa, 16), VIRTIO_BLK_S_UNSUPP);
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, DISK_SECTORS - 1, gpa, 512), VIRTIO_BLK_S_OK);
	end();
}

/* FC #5260's class again: as much as the disk, over and over, is no request. */
static void request_is_bounded(void)
{
	enum { SEGMENT = 64 * 1024, PIECES = QUEUE_SIZE - 2, LIMIT = 126 };
	struct piece all[PIECES];

	begin(0);
	CHECK_INT(reg(&v, 0x108), SEGMENT);
	CHECK_INT(reg(&v, 0x10c), LIMIT);
	CHECK_INT(ftruncate(disk, 2 * LIMIT * SEGMENT), 0);
	virtio_device_free(v.d);
	CHECK_INT(blk_new(&ram, &the_loop, dup(disk), 0, "", &v.d), 0);
	driver_start(&v, v.d, 0);
	for (unsigned i = 0; i < PIECES; i++)
		all[i] = (struct piece){ MEMORY_PAGE, LIMIT * SEGMENT / PIECES, true };
	CHECK_INT(do_request(VIRTIO_BLK_T_IN, 0, all, PIECES), VIRTIO_BLK_S_OK);
	all[0].len += SECTOR;
	CHECK_INT(do_request(VIRTIO_BLK_T_IN, 0, all, PIECES), VIRTIO_BLK_S_IOERR);
	end();
}

/* kvmtool's status byte at the end of whatever came last. */
static void request_without_header_or_status_breaks(void)
{
	struct piece two[2];

	begin(0);
	two[0] = (struct piece){ header_gpa, 16, false };
	chain_add(&v, 0, two, 1); /* no status */
	kick(&v, 0);
	loop_settle();
	CHECK(broken(&v));
	driver_start(&v, v.d, 0);
	two[0].len = 15;
	two[1] = (struct piece){ status_gpa, 1, true };
	chain_add(&v, 0, two, 2);
	kick(&v, 0);
	loop_settle();
	CHECK(broken(&v));
	driver_start(&v, v.d, 0);
	chain_add(&v, 0, two + 1, 1); /* no header */
	kick(&v, 0);
	loop_settle();
	CHECK(broken(&v));
	end();
}

/* All of it over itself: the driver's loss, and nobody else's. */
static void overlapping_pieces_are_the_drivers_loss(void)
{
	struct piece all[3];
	uint64_t gpa;

	begin(0);
	gpa = filled(512, 0);
	header_gpa = gpa;
	header_set(VIRTIO_BLK_T_IN, 0);
	all[0] = (struct piece){ gpa, 16, false };
	all[1] = (struct piece){ gpa, 512, true };
	all[2] = (struct piece){ gpa + 511, 1, true };
	CHECK_INT(request(&v, 0, all, 3), 513);
	CHECK_INT(((uint8_t *)at(gpa))[511], VIRTIO_BLK_S_OK);
	end();
}

static void read_only_disk_is_not_written(void)
{
	uint64_t gpa;

	begin(BLK_READ_ONLY);
	CHECK_INT(v.d->features >> VIRTIO_BLK_F_RO & 1, 1);
	CHECK_INT(v.d->features >> VIRTIO_BLK_F_DISCARD & 1, 0);
	gpa = filled(512, 'w');
	CHECK_INT(do_one(VIRTIO_BLK_T_OUT, 0, gpa, 512), VIRTIO_BLK_S_IOERR);
	memset(at(gpa), 0, 512);
	CHECK_INT(do_request(VIRTIO_BLK_T_DISCARD, 0, &(struct piece){ gpa, 16, false }, 1),
		  VIRTIO_BLK_S_IOERR);
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, 0, gpa, 512), VIRTIO_BLK_S_OK);
	CHECK(all_bytes(gpa, 512, 0));
	end();
}

static int discard(uint64_t sector, uint32_t sectors, uint32_t flags)
{
	uint64_t gpa = buffer(sizeof(struct virtio_blk_discard_write_zeroes));

	*(struct virtio_blk_discard_write_zeroes *)at(gpa) =
		(struct virtio_blk_discard_write_zeroes){ sector, sectors, flags };
	return do_request(VIRTIO_BLK_T_DISCARD, 0, &(struct piece){ gpa, 16, false }, 1);
}

static void discard_leaves_a_hole(void)
{
	struct stat before, after;
	uint64_t gpa;

	begin(0);
	gpa = filled(65536, 'd');
	CHECK_INT(do_one(VIRTIO_BLK_T_OUT, 0, gpa, 65536), VIRTIO_BLK_S_OK);
	CHECK_INT(fstat(disk, &before), 0);
	CHECK_INT(discard(8, 64, 0), VIRTIO_BLK_S_OK);
	CHECK_INT(fstat(disk, &after), 0);
	CHECK_INT(after.st_size, DISK_BYTES);
	CHECK(after.st_blocks <= before.st_blocks - 64);
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, 0, gpa, 65536), VIRTIO_BLK_S_OK);
	CHECK(all_bytes(gpa, 4096, 'd') && all_bytes(gpa + 4096, 32768, 0));
	CHECK(all_bytes(gpa + 36864, 65536 - 36864, 'd'));
	CHECK_INT(discard(0, 0, 0), VIRTIO_BLK_S_OK);
	CHECK_INT(discard(DISK_SECTORS, 1, 0), VIRTIO_BLK_S_IOERR);
	CHECK_INT(discard(UINT64_MAX, 2, 0), VIRTIO_BLK_S_IOERR);
	CHECK_INT(discard(0, UINT32_MAX, 0), VIRTIO_BLK_S_IOERR);
	CHECK_INT(discard(0, 8, 1), VIRTIO_BLK_S_UNSUPP);
	end();
}

/* No space, a broken disk: the guest's to see. */
static void what_the_host_refuses_is_an_error(void)
{
	uint64_t gpa;

	begin(0);
	gpa = filled(4096, 'n');
	CHECK_INT(fcntl(disk, F_ADD_SEALS, F_SEAL_WRITE), 0);
	CHECK_INT(do_one(VIRTIO_BLK_T_OUT, 0, gpa, 4096), VIRTIO_BLK_S_IOERR);
	CHECK_INT(discard(0, 8, 0), VIRTIO_BLK_S_IOERR);
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, 0, gpa, 4096), VIRTIO_BLK_S_OK);
	end();
}

static void file_that_became_shorter_is_an_error(void)
{
	uint64_t gpa;

	begin(0);
	gpa = filled(4096, 's');
	CHECK_INT(ftruncate(disk, 1024), 0);
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, 0, gpa, 4096), VIRTIO_BLK_S_IOERR);
	CHECK(all_bytes(gpa, 1024, 0) && all_bytes(gpa + 1024, 3072, 's'));
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, 0, gpa, 1024), VIRTIO_BLK_S_OK);
	end();
}

static bool disk_has(off_t offset, char byte)
{
	char is;

	return pread(disk, &is, 1, offset) == 1 && is == byte;
}

/* FC #5485: what is left of a short write goes where it belongs, once. */
static void short_write_goes_on_where_it_stopped(void)
{
	struct rlimit was, low = { 1000, 1000 };
	struct piece out[2];
	uint64_t gpa;
	uint16_t head;

	begin(0);
	CHECK_INT(getrlimit(RLIMIT_FSIZE, &was), 0);
	low.rlim_max = was.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	gpa = filled(4096, '1');
	memset((char *)at(gpa) + 700, '2', 4096 - 700);
	out[0] = (struct piece){ gpa, 700, false };
	out[1] = (struct piece){ gpa + 700, 4096 - 700, false };
	head = ask(VIRTIO_BLK_T_OUT, 0, out, 2);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &low), 0);
	kick(&v, 0);
	CHECK(loop_turn(1000));
	while (!disk_has(999, '2'))
		sched_yield();
	CHECK(!disk_has(1000, '2'));
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &was), 0);
	CHECK_INT(answered(head), VIRTIO_BLK_S_OK);
	CHECK(disk_has(0, '1') && disk_has(699, '1') && disk_has(700, '2') && disk_has(1000, '2'));
	CHECK(disk_has(4095, '2') && disk_has(4096, 0));
	end();
}

enum { MANY = QUEUE_SIZE / 4 };

static void ask_many(uint64_t gpa)
{
	for (unsigned i = 0; i < MANY; i++)
		ask(VIRTIO_BLK_T_IN, i, &(struct piece){ gpa + i * SECTOR, SECTOR, true }, 1);
	kick(&v, 0);
	CHECK(loop_turn(1000)); /* the kick, not the completions */
}

static void drain_leaves_nothing_in_flight(void)
{
	begin(0);
	ask_many(filled(MANY * SECTOR, 'x'));
	CHECK_INT(virtio_device_drain(v.d), 0);
	CHECK_INT(used(&v, 0)->idx, MANY);
	CHECK_INT(v.d->queue[0].next_avail, v.d->queue[0].next_used);
	end();
}

/* kvmtool 74af145: whoever resets has its memory back. */
static void reset_waits_for_what_is_in_flight(void)
{
	uint64_t gpa;

	begin(0);
	gpa = filled(MANY * SECTOR, 'x');
	ask_many(gpa);
	reg_set(&v, VIRTIO_MMIO_STATUS, 0);
	memset(at(gpa), 'y', MANY * SECTOR);
	memset(at(v.ring[0].used_gpa), 0x33, 64);
	loop_settle();
	CHECK(all_bytes(gpa, MANY * SECTOR, 'y'));
	CHECK(all_bytes(v.ring[0].used_gpa, 64, 0x33));
	driver_start(&v, v.d, 0);
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, 0, gpa, 512), VIRTIO_BLK_S_OK);
	end();
}

static void end_waits_for_what_is_in_flight(void)
{
	begin(0);
	ask_many(filled(MANY * SECTOR, 'x'));
	end();
}

/* CVE-2021-3748's class: a request outlives its queue. */
static void completion_on_a_broken_device_is_dropped(void)
{
	begin(0);
	ask_many(filled(MANY * SECTOR, 'x'));
	virtio_device_break(v.d, "by the test");
	CHECK_INT(used(&v, 0)->idx, 0);
	loop_settle();
	CHECK_INT(virtio_device_drain(v.d), 0);
	CHECK_INT(used(&v, 0)->idx, 0);
	driver_start(&v, v.d, 0);
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, 0, filled(512, 'z'), 512), VIRTIO_BLK_S_OK);
	end();
}

enum { LAP = VIRTIO_QUEUE_MAX * 3 / 4 };

/* More in flight than there are requests: a driver that gives the same
 * descriptors again before they are back. The rest waits for its turn. */
static void more_in_flight_than_there_are_requests(void)
{
	struct piece three[3];
	uint16_t head;

	begin(0);
	driver_start_sized(&v, 0, VIRTIO_QUEUE_MAX);
	header_set(VIRTIO_BLK_T_IN, 0);
	three[0] = (struct piece){ header_gpa, 16, false };
	three[1] = (struct piece){ buffer(512), 512, true };
	three[2] = (struct piece){ status_gpa, 1, true };
	head = chain_make(&v, 0, three, 3);
	for (unsigned i = 0; i < 2 * LAP; i++) {
		head_add(&v, 0, head);
		if (i % LAP == LAP - 1) {
			v.d->ops->kick(v.d, 0); /* taken, and none completed yet */
			v.d->ops->kick(v.d, 0);
		}
	}
	CHECK_INT(v.d->queue[0].next_avail, VIRTIO_QUEUE_MAX);
	while (used(&v, 0)->idx != 2 * LAP && !broken(&v))
		loop_turn(1000);
	CHECK(!broken(&v));
	end();
}

static void what_is_read_is_dirty_when_it_is_there(void)
{
	uint64_t gpa;

	begin(0);
	gpa = buffer(3 * MEMORY_PAGE) / MEMORY_PAGE * MEMORY_PAGE + MEMORY_PAGE;
	status_gpa = gpa + MEMORY_PAGE;
	dirty_clear();
	CHECK_INT(do_one(VIRTIO_BLK_T_IN, 0, gpa, 512), VIRTIO_BLK_S_OK);
	CHECK(page_is_dirty(gpa) && page_is_dirty(status_gpa) && page_is_dirty(v.ring[0].used_gpa));
	dirty_clear();
	CHECK_INT(do_one(VIRTIO_BLK_T_OUT, 0, gpa, 512), VIRTIO_BLK_S_OK);
	CHECK(!page_is_dirty(gpa) && page_is_dirty(status_gpa));
	end();
}

static int ring_result(struct blk_ring *r)
{
	eventfd_t count;
	void *tag;
	int result;

	CHECK_INT(blk_ring_submit(r), 0);
	do {
		CHECK_INT(blk_ring_wait(r), 0);
		eventfd_read(r->event_fd, &count);
	} while (!blk_ring_reap(r, &tag, &result));
	return result;
}

/* Whoever takes the monitor over has no more of io_uring than a disk needs. */
static void ring_can_do_nothing_else(void)
{
	int fd = memfd_create("disk", MFD_CLOEXEC);
	struct blk_ring r = { 0 };
	char byte;

	CHECK_INT(ftruncate(fd, 1), 0);
	CHECK_INT(blk_ring_make(&r, fd), 0);
	r.prepared++;
	io_uring_prep_nop(io_uring_get_sqe(&r.ring));
	CHECK_INT(ring_result(&r), -EACCES);
	r.prepared++;
	io_uring_prep_openat(io_uring_get_sqe(&r.ring), AT_FDCWD, "/etc/passwd", O_RDONLY, 0);
	CHECK_INT(ring_result(&r), -EACCES);
	r.prepared++;
	io_uring_prep_readv(io_uring_get_sqe(&r.ring), fd, &(struct iovec){ &byte, 1 }, 1, 0);
	CHECK_INT(ring_result(&r), -EACCES); /* not by the table */
	CHECK_INT(io_uring_register_files(&r.ring, &fd, 1), -EACCES);
	blk_ring_read(&r, &(struct iovec){ &byte, 1 }, 1, 0, NULL);
	CHECK_INT(ring_result(&r), 1);
	blk_ring_free(&r);
	close(fd);
}

static void only_regular_files_are_disks(void)
{
	struct virtio_device *d;

	stage_start(RAM_BYTES);
	CHECK_INT(blk_new(&ram, &the_loop, open("/dev/null", O_RDWR), 0, "", &d), -EINVAL);
	stage_end();
}

int main(void)
{
	what_is_written_is_read_again();
	every_piece_of_a_chain_counts();
	header_and_status_may_be_cut_anywhere();
	disk_tells_its_name_and_size();
	what_is_wrong_is_an_error();
	request_is_bounded();
	request_without_header_or_status_breaks();
	overlapping_pieces_are_the_drivers_loss();
	read_only_disk_is_not_written();
	discard_leaves_a_hole();
	what_the_host_refuses_is_an_error();
	file_that_became_shorter_is_an_error();
	short_write_goes_on_where_it_stopped();
	drain_leaves_nothing_in_flight();
	reset_waits_for_what_is_in_flight();
	end_waits_for_what_is_in_flight();
	completion_on_a_broken_device_is_dropped();
	more_in_flight_than_there_are_requests();
	what_is_read_is_dirty_when_it_is_there();
	ring_can_do_nothing_else();
	only_regular_files_are_disks();
	return 0;
}
