#include "blk_ring.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The one file, by its place in the ring's table. */
enum { FILE_INDEX = 0 };

/* By the number: the library of liburing 2.3 leaves these two calls out. */
static int ring_register(struct blk_ring *r, unsigned opcode, void *arg, unsigned n)
{
	return io_uring_register((unsigned)r->ring.ring_fd, opcode, arg, n);
}

static int ring_restrict(struct blk_ring *r)
{
	struct io_uring_restriction only[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_READV },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_WRITEV },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_FSYNC },
		{ .opcode = IORING_RESTRICTION_SQE_FLAGS_REQUIRED, .sqe_flags = IOSQE_FIXED_FILE },
	};

	return ring_register(r, IORING_REGISTER_RESTRICTIONS, only, sizeof(only) / sizeof(*only));
}

/* Disabled until it is restricted; then there is nothing left to register. */
static int ring_setup(struct blk_ring *r, int fd)
{
	unsigned workers[2] = { BLK_RING_WORKERS, 1 };
	int err = io_uring_register_files(&r->ring, &fd, 1);

	if (!err)
		err = io_uring_register_eventfd(&r->ring, r->event_fd);
	if (!err)
		err = io_uring_register_iowq_max_workers(&r->ring, workers);
	if (!err)
		err = ring_restrict(r);
	if (!err)
		err = ring_register(r, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
	return err;
}

int blk_ring_make(struct blk_ring *r, int fd)
{
	int err = io_uring_queue_init(BLK_RING_ENTRIES, &r->ring, IORING_SETUP_R_DISABLED);

	if (err)
		return err;
	r->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	err = r->event_fd < 0 ? -errno : ring_setup(r, fd);
	if (err) {
		if (r->event_fd >= 0)
			close(r->event_fd);
		io_uring_queue_exit(&r->ring);
		return err;
	}
	r->made = true;
	return 0;
}

void blk_ring_free(struct blk_ring *r)
{
	if (!r->made)
		return;
	io_uring_queue_exit(&r->ring);
	close(r->event_fd);
	r->made = false;
}

/* There is room: never more are prepared and in flight than the ring has entries. */
static struct io_uring_sqe *prepare(struct blk_ring *r, int op, const struct iovec *iov, unsigned n,
				    uint64_t offset, void *tag)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	io_uring_prep_rw(op, sqe, FILE_INDEX, iov, n, offset);
	sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data(sqe, tag);
	r->prepared++;
	return sqe;
}

void blk_ring_read(struct blk_ring *r, const struct iovec *iov, unsigned n, uint64_t offset, void *tag)
{
	prepare(r, IORING_OP_READV, iov, n, offset, tag);
}

void blk_ring_write(struct blk_ring *r, const struct iovec *iov, unsigned n, uint64_t offset, void *tag)
{
	prepare(r, IORING_OP_WRITEV, iov, n, offset, tag);
}

void blk_ring_sync(struct blk_ring *r, void *tag)
{
	prepare(r, IORING_OP_FSYNC, NULL, 0, 0, tag)->fsync_flags = IORING_FSYNC_DATASYNC;
}

/* An entry that the kernel refuses ends a round early, with a completion of its own. */
int blk_ring_submit(struct blk_ring *r)
{
	while (r->prepared > 0) {
		int n = io_uring_submit(&r->ring);

		if (n <= 0)
			return n ? n : -EIO;
		r->prepared -= (unsigned)n;
		r->in_flight += (unsigned)n;
	}
	return 0;
}

bool blk_ring_reap(struct blk_ring *r, void **ret_tag, int *ret_result)
{
	struct io_uring_cqe *cqe;

	if (io_uring_peek_cqe(&r->ring, &cqe) != 0)
		return false;
	*ret_tag = io_uring_cqe_get_data(cqe);
	*ret_result = cqe->res;
	io_uring_cqe_seen(&r->ring, cqe);
	r->in_flight--;
	return true;
}

int blk_ring_wait(const struct blk_ring *r)
{
	int n;

	do
		n = io_uring_enter((unsigned)r->ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL);
	while (n == -EINTR);
	return n < 0 ? n : 0;
}
