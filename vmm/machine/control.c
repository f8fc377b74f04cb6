#include "control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What each verb must bring, and may. */
static const struct {
	uint32_t must, may;
} verb_files[] = {
	[CONTROL_START] = { 0, (1u << CONTROL_FILES) - 1 },
	[CONTROL_PAUSE] = { 0, 0 },
	[CONTROL_SNAPSHOT] = { 1u << CONTROL_STATE, 1u << CONTROL_MEMORY | 1u << CONTROL_PAGES },
	[CONTROL_RESUME] = { 0, 0 },
	[CONTROL_STAT] = { 0, 0 },
	[CONTROL_BALLOON] = { 0, 0 },
	[CONTROL_QUIT] = { 0, 0 },
};

static int start_check(const struct control_request *r, struct problem *p)
{
	const uint32_t boot = 1u << CONTROL_KERNEL | 1u << CONTROL_INITRD;
	const uint32_t snapshot = 1u << CONTROL_MEMORY | 1u << CONTROL_STATE;

	if (r->files & snapshot) {
		if ((r->files & snapshot) != snapshot || (r->files & boot))
			return problem_set(p, -EPROTO, "a snapshot is memory and state, without a kernel");
	} else if (!(r->files & 1u << CONTROL_KERNEL)) {
		return problem_set(p, -EPROTO, "neither a kernel nor a snapshot");
	} else if (r->files & 1u << CONTROL_PAGES) {
		return problem_set(p, -EPROTO, "changed pages without a snapshot");
	}
	if (!memchr(r->cmdline, '\0', sizeof(r->cmdline)))
		return problem_set(p, -EPROTO, "the command line has no end");
	return 0;
}

int control_check(const struct control_request *r, size_t size, unsigned files_count, struct problem *p)
{
	if (size != sizeof(*r) || r->version != CONTROL_VERSION)
		return problem_set(p, -EPROTO, "a request of another version");
	if (r->verb < CONTROL_START || r->verb > CONTROL_QUIT || r->serial == 0)
		return problem_set(p, -EPROTO, "an unknown request");
	if (r->flags & ~(uint32_t)CONTROL_PVH)
		return problem_set(p, -EPROTO, "an unknown flag");
	if ((r->files & ~(verb_files[r->verb].must | verb_files[r->verb].may)) ||
	    (r->files & verb_files[r->verb].must) != verb_files[r->verb].must)
		return problem_set(p, -EPROTO, "these files do not belong to the request");
	if ((unsigned)__builtin_popcount(r->files) != files_count)
		return problem_set(p, -EPROTO, "%u descriptors for %d files", files_count,
				   __builtin_popcount(r->files));
	if (r->verb == CONTROL_SNAPSHOT &&
	    !(r->files & 1u << CONTROL_MEMORY) == !(r->files & 1u << CONTROL_PAGES))
		return problem_set(p, -EPROTO, "a snapshot is of all memory or of the pages that changed");
	return r->verb == CONTROL_START ? start_check(r, p) : 0;
}

enum {
	/* What a control buffer holds is rounded up: one descriptor more may come than there are files. */
	FILES_ROOM = CMSG_SPACE(CONTROL_FILES * sizeof(int)) / sizeof(int),
};

/* Descriptors that came, in the order of the message. */
static unsigned files_take(struct msghdr *msg, int ret[FILES_ROOM])
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	unsigned n;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(ret, CMSG_DATA(c), n * sizeof(int)); /* the buffer has room for no more */
	return n;
}

int control_receive(int fd, struct control_message *ret, struct problem *p)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(CONTROL_FILES * sizeof(int))];
	} rights;
	struct iovec iov = { &ret->request, sizeof(ret->request) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = rights.bytes,
			      .msg_controllen = sizeof(rights.bytes) };
	int files[FILES_ROOM], err;
	unsigned count, next = 0;
	ssize_t n;

	memset(&ret->request, 0, sizeof(ret->request));
	n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n <= 0)
		return n == 0 || errno == ECONNRESET ? -EPIPE : errno == EINTR ? -EAGAIN : -errno;
	count = files_take(&msg, files);
	err = msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? problem_set(p, -EPROTO, "a request that is too long")
						       : control_check(&ret->request, (size_t)n, count, p);
	if (err) {
		while (count > 0)
			close(files[--count]);
		return err;
	}
	for (int i = 0; i < CONTROL_FILES; i++)
		ret->files[i] = ret->request.files & 1u << i ? files[next++] : -1;
	return 0;
}

void control_message_close(struct control_message *m)
{
	for (int i = 0; i < CONTROL_FILES; i++) {
		if (m->files[i] >= 0)
			close(m->files[i]);
		m->files[i] = -1;
	}
}

int control_send(int fd, const struct control_reply *reply)
{
	ssize_t n;

	do
		n = send(fd, reply, sizeof(*reply), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}
