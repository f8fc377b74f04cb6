#include "events.h"

#include <uv.h>

#include "agent.h"
#include "cgroup.h"
#include "kernel.h"
#include "link/channel.h"
#include "process.h"
#include "util.h"

static uv_poll_t memory_poll;
static uv_timer_t memory_timer;

static void on_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		     void *arg)
{
	(void)type, (void)payload, (void)len, (void)arg;
	channel_ack(c, seq);
}

static void on_gap(struct channel *c, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
		   void *arg)
{
	(void)first, (void)frames, (void)bytes, (void)arg;
	channel_ack(c, last);
}

static const struct channel_ops channel_ops = { .frame = on_frame, .gap = on_gap };

static void memory_look(struct agent *a)
{
	kernel_tell_oom(a);
	process_tell_oom(a);
}

static void memory_due(uv_timer_t *timer)
{
	memory_look(timer->data);
}

static void memory_event(uv_poll_t *poll, int status, int events)
{
	struct agent *a = poll->data;
	char text[512];
	int fd = -1;

	(void)status, (void)events;
	/* Reading arms the next notification. */
	if (uv_fileno((uv_handle_t *)poll, &fd) < 0 || pread(fd, text, sizeof(text), 0) < 0)
		return;
	memory_look(a);
}

static int memory_time(struct agent *a)
{
	uv_timer_init(&a->loop, &memory_timer);
	memory_timer.data = a;
	return uv_timer_start(&memory_timer, memory_due, MEMORY_LOOK_MS, MEMORY_LOOK_MS);
}

int events_start(struct agent *a)
{
	char text[512];
	int fd, err;

	a->events = channel_new(CHANNEL_DROP_MIDDLE, &channel_ops, a);
	if (!a->events)
		return -ENOMEM;
	if (!a->opt.system)
		return 0;
	fd = cgroup_open_memory_events();
	if (fd < 0)
		return fd == -ENOENT ? memory_time(a) : fd;
	if (pread(fd, text, sizeof(text), 0) < 0)
		return -errno;
	err = uv_poll_init(&a->loop, &memory_poll, fd);
	memory_poll.data = a;
	return err ? err : uv_poll_start(&memory_poll, UV_PRIORITIZED, memory_event);
}

void events_attach(struct request *rq)
{
	request_channel(rq, rq->agent->events);
}

void events_send(struct agent *a, json_t *event)
{
	cleanup_free char *text = json_dumps(event, JSON_COMPACT);

	json_decref(event);
	if (text && channel_send(a->events, 'V', false, text, strlen(text)) < 0)
		log_line("an event is lost: %s", text);
}
