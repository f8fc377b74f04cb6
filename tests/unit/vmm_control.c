/* UNIT: vmm/machine vmm/virtio vmm/snapshot LIBS: -luring -lseccomp */
/* The owner's requests: only what adds up is served, and descriptors of the rest do not stay open. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "vmm/machine/control.h"

static struct control_request request(uint32_t verb, uint32_t files)
{
	return (struct control_request){
		.version = CONTROL_VERSION, .verb = verb, .serial = 7, .files = files
	};
}

static int check(const struct control_request *r)
{
	struct problem p = { "" };
	int err = control_check(r, sizeof(*r), (unsigned)__builtin_popcount(r->files), &p);

	CHECK(err == 0 || (err == -EPROTO && p.text[0] != '\0'));
	return err;
}

static void requests_that_do_not_add_up_are_refused(void)
{
	const uint32_t kernel = 1u << CONTROL_KERNEL, memory = 1u << CONTROL_MEMORY,
		       state = 1u << CONTROL_STATE;
	struct control_request r = request(CONTROL_START, kernel);

	CHECK_INT(check(&r), 0);
	CHECK_INT(control_check(&r, sizeof(r) - 1, 1, NULL), -EPROTO);
	CHECK_INT(control_check(&r, sizeof(r), 0, NULL), -EPROTO);
	CHECK_INT(control_check(&r, sizeof(r), 2, NULL), -EPROTO);
	r.version++;
	CHECK_INT(check(&r), -EPROTO);
	r = request(0, 0);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_ENDED, 0);
	CHECK_INT(check(&r), -EPROTO);
	r = request(UINT32_MAX, 0);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_STAT, 0);
	r.serial = 0;
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_STAT, kernel);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_SNAPSHOT, memory);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_SNAPSHOT, state);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_SNAPSHOT, memory | state | 1u << CONTROL_PAGES);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_SNAPSHOT, state | 1u << CONTROL_PAGES);
	CHECK_INT(check(&r), 0);
	r = request(CONTROL_START, kernel | 1u << CONTROL_PAGES);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_START, 1u << CONTROL_FILES | kernel);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_START, memory | kernel);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_START, memory | state | kernel);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_START, 0);
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_START, memory | state);
	CHECK_INT(check(&r), 0);
	r.flags = 1u << 31;
	CHECK_INT(check(&r), -EPROTO);
	r = request(CONTROL_START, kernel);
	memset(r.cmdline, 'x', sizeof(r.cmdline));
	CHECK_INT(check(&r), -EPROTO);
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void send_with(int fd, const void *bytes, size_t size, unsigned count)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(16 * sizeof(int))];
	} rights = { 0 };
	struct iovec iov = { (void *)bytes, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (count > 0) {
		msg.msg_control = rights.bytes;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
		rights.header.cmsg_level = SOL_SOCKET;
		rights.header.cmsg_type = SCM_RIGHTS;
		rights.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		for (unsigned i = 0; i < count; i++)
			((int *)CMSG_DATA(&rights.header))[i] = STDERR_FILENO;
	}
	CHECK(sendmsg(fd, &msg, 0) == (ssize_t)size);
}

static void descriptors_come_in_their_order_and_do_not_leak(void)
{
	struct control_request r = request(CONTROL_START, 1u << CONTROL_KERNEL | 1u << CONTROL_CONSOLE);
	char long_one[sizeof(r) + 8] = { 0 };
	struct control_message m;
	int fds[2], before;

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	before = open_descriptors();
	CHECK_INT(control_receive(fds[0], &m, NULL), -EAGAIN);
	send_with(fds[1], &r, sizeof(r), 2);
	CHECK_INT(control_receive(fds[0], &m, NULL), 0);
	CHECK_INT(open_descriptors(), before + 2);
	CHECK(m.files[CONTROL_KERNEL] >= 0 && m.files[CONTROL_CONSOLE] > m.files[CONTROL_KERNEL]);
	CHECK(m.files[CONTROL_INITRD] == -1 && m.files[CONTROL_STATE] == -1);
	CHECK(fcntl(m.files[CONTROL_KERNEL], F_GETFD) == FD_CLOEXEC);
	control_message_close(&m);
	CHECK_INT(open_descriptors(), before);

	send_with(fds[1], &r, sizeof(r), 3);
	CHECK_INT(control_receive(fds[0], &m, NULL), -EPROTO);
	CHECK(m.request.serial == 7);
	send_with(fds[1], &r, sizeof(r), 16);
	CHECK_INT(control_receive(fds[0], &m, NULL), -EPROTO);
	send_with(fds[1], &r, 12, 1);
	CHECK_INT(control_receive(fds[0], &m, NULL), -EPROTO);
	memcpy(long_one, &r, sizeof(r));
	send_with(fds[1], long_one, sizeof(long_one), 2);
	CHECK_INT(control_receive(fds[0], &m, NULL), -EPROTO);
	CHECK_INT(open_descriptors(), before);
	close(fds[1]);
	CHECK_INT(control_receive(fds[0], &m, NULL), -EPIPE);
	close(fds[0]);
}

int main(void)
{
	requests_that_do_not_add_up_are_refused();
	descriptors_come_in_their_order_and_do_not_leak();
	return 0;
}
