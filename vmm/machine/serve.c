#include "serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "machine.h"
#include "vmm/snapshot/snapshot.h"
#include "vmm/virtio/balloon.h"

#define MIB (1ull << 20)

struct server {
	struct machine machine;
	int control_fd;
	int result; /* of serve() */
};

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
	if (control_send(s->control_fd, &answer) != 0)
		loop_stop(s->machine.loop);
}

static void finish(struct server *s, int result)
{
	s->result = result;
	loop_stop(s->machine.loop);
}

/* A start that failed half-way leaves nothing to go on with. */
static int start(struct server *s, struct control_message *message, struct problem *p)
{
	bool empty = s->machine.state == CONTROL_EMPTY;
	bool restore = message->files[CONTROL_STATE] >= 0;
	int err = restore ? snapshot_load(&s->machine, message, p) : machine_boot(&s->machine, message, p);

	if (err && empty) {
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
	int err = control_receive(s->control_fd, &message, &p);

	(void)events;
	if (err == -EAGAIN)
		return;
	if (err == -EPROTO) {
		reply(s, &message.request, err, &p);
		return;
	}
	if (err) { /* the owner is gone */
		finish(s, 0);
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

int serve(int control_fd, int kvm_fd)
{
	static struct server s;
	struct problem p = { "" };
	int err;

	s.control_fd = control_fd;
	err = machine_new(&s.machine, kvm_fd, on_end, &s, &p);
	if (!err)
		err = loop_watch(s.machine.loop, control_fd, EPOLLIN, on_control, &s);
	if (err)
		fprintf(stderr, "carrel-vmm: cannot start: %s\n", p.text);
	else
		err = loop_run(s.machine.loop);
	pthread_mutex_lock(&s.machine.bus.lock);
	machine_free(&s.machine);
	pthread_mutex_unlock(&s.machine.bus.lock);
	return err ? err : s.result;
}
