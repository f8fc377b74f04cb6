#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "filter.h"
#include "machine.h"
#include "trace.h"
#include "vmm/snapshot/snapshot.h"
#include "vmm/virtio/balloon.h"

#define MIB (1ull << 20)

struct server {
	struct machine machine;
	struct serve_fds fds;
	bool listens;
	int owner_fd; /* -1: nobody is connected */
	int result; /* of serve() */
};

static void finish(struct server *s, int result)
{
	s->result = result;
	loop_stop(s->machine.loop);
}

static void on_knock(void *arg, uint32_t events);

static void owner_lost(struct server *s)
{
	if (!s->listens) {
		finish(s, 0);
		return;
	}
	loop_unwatch(s->machine.loop, s->owner_fd);
	close(s->owner_fd);
	s->owner_fd = -1;
	if (loop_watch(s->machine.loop, s->fds.control, EPOLLIN, on_knock, s) != 0)
		finish(s, -EIO);
}

static void reply(struct server *s, const struct control_request *r, int err, const struct problem *p)
{
	struct control_reply answer = { .version = CONTROL_VERSION,
					.verb = r->verb,
					.serial = r->serial,
					.error = err,
					.state = s->machine.state,
					.memory_mb = (uint32_t)(s->machine.memory.size / MIB),
					.vcpus = s->machine.vcpu_count };

	if (s->machine.balloon)
		answer.balloon_mb = balloon_actual(s->machine.balloon) / (MIB / MEMORY_PAGE);
	memcpy(answer.message, p->text, sizeof(answer.message));
	/* An owner that does not read is as good as gone. */
	if (s->owner_fd >= 0 && control_send(s->owner_fd, &answer) != 0)
		owner_lost(s);
}

/* What the monitor was started with stands in for what a START does not bring. */
static int inherit(struct control_message *m, enum control_file which, int fd)
{
	if (fd < 0 || m->files[which] >= 0)
		return 0;
	m->files[which] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (m->files[which] < 0)
		return -errno;
	m->request.files |= 1u << which;
	return 0;
}

static int load(struct server *s, struct control_message *message, struct problem *p)
{
	int err = inherit(message, CONTROL_AGENT, s->fds.agent);

	trace_step("waited for a request");
	if (!err)
		err = inherit(message, CONTROL_CONSOLE, s->fds.console);
	if (err)
		return problem_set(p, err, "the monitor's own files");
	return message->files[CONTROL_STATE] >= 0 ? snapshot_load(&s->machine, message, p) :
						    machine_boot(&s->machine, message, p);
}

/* What puts a machine together is given up before the guest runs. */
static int run(struct server *s, struct problem *p)
{
	int err = filter_enter(FILTER_MAIN);

	if (!err)
		err = machine_resume(&s->machine);
	trace_step("it runs");
	return err ? problem_set(p, err, "the first run") : 0;
}

/* A start that failed half-way leaves nothing to go on with. */
static int start(struct server *s, struct control_message *message, struct problem *p)
{
	int err;

	if (s->machine.state != CONTROL_EMPTY)
		return problem_set(p, -EINVAL, "this monitor has its machine already");
	err = load(s, message, p);
	if (!err)
		err = run(s, p);
	if (err) {
		fprintf(stderr, "carrel-vmm: %s\n", p->text);
		finish(s, err);
	}
	return err;
}

static int balloon(struct server *s, uint32_t mb)
{
	struct machine *m = &s->machine;

	if (!m->balloon || (uint64_t)mb * MIB > m->memory.size)
		return -EINVAL;
	balloon_set_target(m->balloon, mb * (uint32_t)(MIB / MEMORY_PAGE));
	return 0;
}

static int perform(struct server *s, struct control_message *message, struct problem *p)
{
	int err;

	switch (message->request.verb) {
	case CONTROL_START:
		return start(s, message, p);
	case CONTROL_PAUSE:
		err = machine_pause(&s->machine);
		break;
	case CONTROL_RESUME:
		err = machine_resume(&s->machine);
		break;
	case CONTROL_STAT:
		return 0;
	case CONTROL_SNAPSHOT:
		return snapshot_save(&s->machine, message, p);
	case CONTROL_BALLOON:
		err = balloon(s, message->request.balloon_mb);
		break;
	case CONTROL_QUIT:
		finish(s, 0);
		return 0;
	default:
		err = -ENOTSUP;
		break;
	}
	return err ? problem_set(p, err, "not in this state of the machine") : 0;
}

static void on_control(void *arg, uint32_t events)
{
	struct server *s = arg;
	struct control_message message;
	struct problem p = { "" };
	int err = control_receive(s->owner_fd, &message, &p);

	(void)events;
	if (err == -EAGAIN)
		return;
	if (err == -EPROTO) {
		reply(s, &message.request, err, &p);
		return;
	}
	if (err) {
		owner_lost(s);
		return;
	}
	err = perform(s, &message, &p);
	control_message_close(&message);
	reply(s, &message.request, err, &p);
}

static void on_end(void *arg, enum machine_end end)
{
	struct server *s = arg;
	const struct control_request event = { .verb = CONTROL_ENDED };
	struct problem p;

	snprintf(p.text, sizeof(p.text), "%s", machine_end_text(end));
	if (end == MACHINE_FAILED)
		fprintf(stderr, "carrel-vmm: %s\n", p.text);
	reply(s, &event, 0, &p);
	finish(s, end == MACHINE_FAILED ? -EIO : 0);
}

static void on_knock(void *arg, uint32_t events)
{
	const struct control_request hello = { .verb = CONTROL_HELLO };
	const struct problem nothing = { "" };
	struct server *s = arg;
	int fd = accept4(s->fds.control, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return; /* it went away again, or its turn comes with the next event */
	s->owner_fd = fd;
	loop_unwatch(s->machine.loop, s->fds.control);
	if (loop_watch(s->machine.loop, fd, EPOLLIN, on_control, s) != 0)
		finish(s, -EIO);
	else
		reply(s, &hello, 0, &nothing);
}

static int control_watch(struct server *s)
{
	socklen_t size = sizeof(int);
	int listens = 0;

	if (getsockopt(s->fds.control, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0)
		return -errno;
	/* Whoever knocked may be gone before the door is opened. */
	if (listens && fcntl(s->fds.control, F_SETFL, O_NONBLOCK) != 0)
		return -errno;
	s->listens = listens;
	s->owner_fd = listens ? -1 : s->fds.control;
	return loop_watch(s->machine.loop, s->fds.control, EPOLLIN, listens ? on_knock : on_control, s);
}

int serve(const struct serve_fds *fds)
{
	static struct server s;
	struct problem p = { "" };
	int err;

	s.fds = *fds;
	err = machine_new(&s.machine, fds->kvm, on_end, &s, &p);
	trace_step("a machine at KVM");
	if (!err)
		err = control_watch(&s);
	if (!err)
		err = filters_build();
	if (!err)
		err = filter_enter(FILTER_START);
	trace_step("filters");
	if (err)
		fprintf(stderr, "carrel-vmm: cannot start: %s\n", p.text[0] ? p.text : strerror(-err));
	else
		err = loop_run(s.machine.loop);
	pthread_mutex_lock(&s.machine.bus.lock);
	machine_free(&s.machine);
	pthread_mutex_unlock(&s.machine.bus.lock);
	return err ? err : s.result;
}
