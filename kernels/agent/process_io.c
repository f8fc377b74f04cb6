#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "agent.h"
#include "link/channel.h"
#include "process.h"
#include "signal_name.h"
#include "util.h"

enum { OOM_RECENT_MS = 3000 };

static void pipe_event(uv_poll_t *poll, int status, int events);
static void grace_over(uv_timer_t *timer);

static void poll_free(uv_handle_t *handle)
{
	free(handle);
}

static void pipe_close(struct process_pipe *pipe)
{
	if (pipe->poll)
		uv_close((uv_handle_t *)pipe->poll, poll_free);
	pipe->poll = NULL;
	if (pipe->fd >= 0)
		close(pipe->fd);
	pipe->fd = -1;
}

/* Pipes whose process was told to have ended while something it left behind
 * may still write: read into nothing, so that it neither blocks nor dies. */
struct left_pipe {
	TAILQ_ENTRY(left_pipe) entry;
	int fd;
	uv_poll_t poll;
};

static TAILQ_HEAD(, left_pipe) left_pipes = TAILQ_HEAD_INITIALIZER(left_pipes);
static unsigned left_count;

static void left_free(uv_handle_t *handle)
{
	free(handle->data);
}

static void left_close(struct left_pipe *left)
{
	TAILQ_REMOVE(&left_pipes, left, entry);
	left_count--;
	uv_close((uv_handle_t *)&left->poll, left_free);
	close(left->fd);
}

static void left_event(uv_poll_t *poll, int status, int events)
{
	struct left_pipe *left = poll->data;
	static char nothing[PROCESS_READ_MAX];
	ssize_t n = read(left->fd, nothing, sizeof(nothing));

	(void)status, (void)events;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		left_close(left);
}

static void pipe_leave(struct process_pipe *pipe)
{
	struct left_pipe *left;
	int fd = pipe->fd;

	if (fd < 0)
		return;
	pipe->fd = -1;
	pipe_close(pipe);
	if (left_count >= PROCESS_LEFT_PIPES_MAX)
		left_close(TAILQ_FIRST(&left_pipes));
	left = xcalloc(1, sizeof(*left));
	/* A descriptor of its own: the old number's poll handle is closing. */
	left->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	left->poll.data = left;
	if (left->fd < 0 || uv_poll_init(&pipe->p->agent->loop, &left->poll, left->fd) < 0) {
		if (left->fd >= 0)
			close(left->fd);
		free(left);
		return;
	}
	TAILQ_INSERT_TAIL(&left_pipes, left, entry);
	left_count++;
	uv_poll_start(&left->poll, UV_READABLE, left_event);
}

static void pipe_poll(struct process_pipe *pipe, int events)
{
	if (pipe->poll && events)
		uv_poll_start(pipe->poll, events, pipe_event);
	else if (pipe->poll)
		uv_poll_stop(pipe->poll);
}

/* Reads once. False when there is nothing more for now, or ever. */
static bool output_read(struct process_pipe *pipe)
{
	static uint8_t bytes[PROCESS_READ_MAX];
	ssize_t n = read(pipe->fd, bytes, sizeof(bytes));
	int64_t seq;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		pipe_close(pipe);
		return false;
	}
	seq = channel_send(pipe->p->channel, pipe->kind == PROCESS_STDOUT ? 'O' : 'E', false, bytes,
			   (size_t)n);
	if (seq < 0)
		log_line("%zd bytes of process %s are lost: %s", n, pipe->p->id, strerror((int)-seq));
	pipe->p->grace_reads += pipe->p->ended;
	return true;
}

static void output_poll(struct process *p)
{
	int events = channel_full(p->channel) ? 0 : UV_READABLE;

	pipe_poll(&p->pipe[PROCESS_STDOUT], events);
	pipe_poll(&p->pipe[PROCESS_STDERR], events);
}

static bool output_open(const struct process *p)
{
	return p->pipe[PROCESS_STDOUT].fd >= 0 || p->pipe[PROCESS_STDERR].fd >= 0;
}

static void input_drop(struct process *p)
{
	struct process_input *in;

	while ((in = STAILQ_FIRST(&p->input))) {
		STAILQ_REMOVE_HEAD(&p->input, entry);
		channel_ack(p->channel, in->seq);
		free(in);
	}
}

/* Writes what waits for its stdin; the host sends no more meanwhile. */
static void input_write(struct process *p)
{
	struct process_pipe *pipe = &p->pipe[PROCESS_STDIN];
	struct process_input *in;

	while (pipe->fd >= 0 && (in = STAILQ_FIRST(&p->input))) {
		ssize_t n = in->len > in->at ? write(pipe->fd, in->bytes + in->at, in->len - in->at) : 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n > 0)
			in->at += (size_t)n;
		if (n >= 0 && in->at < in->len)
			continue;
		if (n < 0 || in->close)
			pipe_close(pipe);
		STAILQ_REMOVE_HEAD(&p->input, entry);
		channel_ack(p->channel, in->seq);
		free(in);
	}
	if (pipe->fd < 0)
		input_drop(p);
	pipe_poll(pipe, STAILQ_EMPTY(&p->input) ? 0 : UV_WRITABLE);
	if (p->input_held != !STAILQ_EMPTY(&p->input)) {
		p->input_held = !p->input_held;
		channel_pause(p->channel, p->input_held);
	}
}

static void pipe_event(uv_poll_t *poll, int status, int events)
{
	struct process_pipe *pipe = poll->data;
	struct process *p = pipe->p;

	(void)status, (void)events;
	if (pipe->kind == PROCESS_STDIN)
		return input_write(p);
	output_read(pipe);
	output_poll(p);
	if (p->grace_reads >= PROCESS_GRACE_READS)
		grace_over(&p->timer);
	else if (p->ended && !output_open(p))
		process_io_finish(p);
}

static void on_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		     void *arg)
{
	struct process *p = arg;
	struct process_input *in;

	if ((type != 'I' && type != 'C') || p->pipe[PROCESS_STDIN].fd < 0)
		return channel_ack(c, seq);
	in = malloc(sizeof(*in) + len);
	if (!in) {
		log_line("there is no memory for stdin of process %s; %zu bytes are lost", p->id, len);
		return channel_ack(c, seq);
	}
	in->seq = seq;
	in->at = 0;
	in->close = type == 'C';
	in->len = in->close ? 0 : len;
	memcpy(in->bytes, payload, in->len);
	STAILQ_INSERT_TAIL(&p->input, in, entry);
	input_write(p);
}

static void on_drained(struct channel *c, void *arg)
{
	(void)c;
	output_poll(arg);
}

static void on_gap(struct channel *c, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
		   void *arg)
{
	(void)first, (void)frames, (void)bytes, (void)arg;
	channel_ack(c, last);
}

/* The end is waited for by its number. */
static void on_renumbered(struct channel *c, uint64_t from, uint64_t by, void *arg)
{
	struct process *p = arg;

	(void)c;
	if (p->told && p->told_seq >= from)
		p->told_seq += by;
}

static const struct channel_ops channel_ops = {
	.frame = on_frame,
	.gap = on_gap,
	.renumbered = on_renumbered,
	.drained = on_drained,
};

static int pipe_open(struct process_pipe *pipe, int *ret_childs)
{
	bool input = pipe->kind == PROCESS_STDIN;
	int fds[2], err;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pipe->fd = fds[input ? 1 : 0];
	fcntl(pipe->fd, F_SETFL, O_NONBLOCK);
	*ret_childs = fds[input ? 0 : 1];
	pipe->poll = xcalloc(1, sizeof(*pipe->poll));
	pipe->poll->data = pipe;
	err = uv_poll_init(&pipe->p->agent->loop, pipe->poll, pipe->fd);
	if (err) {
		free(pipe->poll);
		pipe->poll = NULL;
	}
	return err;
}

int process_io_open(struct process *p, bool with_stdin, int childs[PROCESS_PIPES])
{
	int i, err = 0;

	p->channel = channel_new(CHANNEL_DROP_MIDDLE, &channel_ops, p);
	if (!p->channel)
		return -ENOMEM;
	for (i = with_stdin ? PROCESS_STDIN : PROCESS_STDOUT; i < PROCESS_PIPES && !err; i++)
		err = pipe_open(&p->pipe[i], &childs[i]);
	return err;
}

void process_io_start(struct process *p)
{
	output_poll(p);
	input_write(p);
}

static void look_for_ack(uv_timer_t *timer)
{
	struct process *p = timer->data;

	if (channel_acked(p->channel) >= p->told_seq)
		process_free(p);
}

static void tell_end(struct process *p)
{
	cleanup_json json_t *end = NULL;
	cleanup_free char *text = NULL;
	char name[SIGNAL_NAME_MAX];
	int64_t seq;

	if (WIFSIGNALED(p->status))
		end = json_pack("{s:s}", "signal", signal_name(WTERMSIG(p->status), name));
	else
		end = json_pack("{s:i}", "exit_code", WEXITSTATUS(p->status));
	if (WIFSIGNALED(p->status) && WTERMSIG(p->status) == SIGKILL && p->oom_at &&
	    now_ms() - p->oom_at < OOM_RECENT_MS)
		json_object_set_new(end, "reason", json_string("out-of-memory"));
	text = json_dumps(end, JSON_COMPACT);
	seq = channel_send(p->channel, 'X', true, text, strlen(text));
	if (seq < 0)
		log_line("the end of process %s cannot be told: %s", p->id, strerror((int)-seq));
	p->told = true;
	p->told_seq = seq < 0 ? 0 : (uint64_t)seq;
	uv_timer_start(&p->timer, look_for_ack, PROCESS_REAP_MS, PROCESS_REAP_MS);
}

static void grace_over(uv_timer_t *timer)
{
	struct process *p = timer->data;
	int i;

	/* What itself wrote last is in the pipes, however slowly the host takes
	 * it; what it left behind could go on for ever. */
	for (i = PROCESS_STDOUT; i < PROCESS_PIPES; i++)
		while (p->grace_reads < PROCESS_GRACE_READS && !channel_full(p->channel) &&
		       p->pipe[i].fd >= 0 && output_read(&p->pipe[i]))
			;
	if (output_open(p) && channel_full(p->channel) && p->grace_reads < PROCESS_GRACE_READS) {
		uv_timer_start(timer, grace_over, PROCESS_PIPE_GRACE_MS, 0);
		return;
	}
	pipe_leave(&p->pipe[PROCESS_STDOUT]);
	pipe_leave(&p->pipe[PROCESS_STDERR]);
	process_io_finish(p);
}

void process_io_finish(struct process *p)
{
	if (p->told)
		return;
	if (output_open(p)) {
		uv_timer_start(&p->timer, grace_over, PROCESS_PIPE_GRACE_MS, 0);
		return;
	}
	pipe_close(&p->pipe[PROCESS_STDIN]);
	input_write(p);
	tell_end(p);
}

void process_io_free(struct process *p)
{
	int i;

	for (i = 0; i < PROCESS_PIPES; i++)
		pipe_close(&p->pipe[i]);
	if (p->channel)
		input_drop(p);
	channel_free(p->channel);
}
