#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "agent.h"
#include "cgroup.h"
#include "events.h"
#include "kernel.h"
#include "link/channel.h"
#include "signal_name.h"
#include "util.h"

enum { DRAIN_TICK_MS = 50, OOM_RECENT_MS = 3000 };

void kernel_interrupt_answered(struct kernel *k)
{
	uv_timer_stop(&k->interrupt_timer);
	if (k->interrupter)
		request_answer(k->interrupter, 204, NULL);
	k->interrupter = NULL;
}

static void interrupt_overdue(uv_timer_t *timer)
{
	struct kernel *k = timer->data;

	if (k->phase == KERNEL_ALIVE)
		kill(-k->pid, SIGINT);
	kernel_interrupt_answered(k);
}

void kernel_interrupt_start(struct kernel *k)
{
	int err = jupyter_request(k->jupyter, WIRE_CONTROL, "interrupt_request", NULL);

	uv_timer_start(&k->interrupt_timer, interrupt_overdue, err ? 0 : KERNEL_INTERRUPT_MS, 0);
}

/* Even to die a process needs the processor: among hundreds that it forked, all
 * of them killed, the kernel would have its turn when most of them are gone. */
static void kill_first(pid_t pid)
{
	struct dirent *task;
	char path[64];
	DIR *tasks;

	kill(pid, SIGKILL);
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (task = readdir(tasks))) {
		/* One that is gone already needs nothing. */
		if (task->d_name[0] != '.')
			setpriority(PRIO_PROCESS, (id_t)strtoul(task->d_name, NULL, 10), -20);
	}
	if (tasks)
		closedir(tasks);
}

static void stop_overdue(uv_timer_t *timer)
{
	struct kernel *k = timer->data;

	if (!k->watch.pid)
		return;
	kill_first(k->pid);
	kill(-k->pid, SIGKILL);
}

/* By the kernel's own will first, so that its atexit functions run. */
void kernel_stop(struct kernel *k)
{
	json_t *restart = json_pack("{s:b}", "restart", k->wish == KERNEL_WISH_RESTART);
	int err = -ENOTCONN;

	if (k->phase == KERNEL_ALIVE)
		err = jupyter_request(k->jupyter, WIRE_CONTROL, "shutdown_request", json_incref(restart));
	json_decref(restart);
	if (k->phase == KERNEL_ALIVE || k->phase == KERNEL_STARTING)
		uv_timer_start(&k->timer, stop_overdue, err ? 0 : KERNEL_SHUTDOWN_MS, 0);
	else if (k->phase == KERNEL_FORKING || k->phase == KERNEL_DEAD)
		kernel_free(k);
	/* DRAINING: the wish is fulfilled when it is over. */
}

/* Three deaths in a row at once mean that a fourth start would die, too. */
static bool may_restart(struct kernel *k)
{
	uint64_t now = now_ms();
	unsigned i, recent = 0;

	k->deaths[k->death_count++ % KERNEL_DEATHS_MAX] = now;
	for (i = 0; i < KERNEL_DEATHS_MAX && i < k->death_count; i++)
		recent += now - k->deaths[i] <= KERNEL_DEATHS_MS;
	return recent < KERNEL_DEATHS_MAX;
}

/* The killer may have taken a child long ago: only a kill right after counts. */
static bool out_of_memory(const struct kernel *k)
{
	return k->status_known && WIFSIGNALED(k->status) && WTERMSIG(k->status) == SIGKILL && k->oom_at &&
	       k->since - k->oom_at < OOM_RECENT_MS;
}

static json_t *dead_json(struct kernel *k, bool restarting)
{
	json_t *dead = json_pack("{s:s, s:i, s:I, s:b}", "state", "dead", "generation", (int)k->generation,
				 "received", (json_int_t)k->handed, "restarting", restarting);
	json_t *crash =
		k->start_error ? text_json(k->start_error, strlen(k->start_error)) : tail_json(&k->crash);
	char name[SIGNAL_NAME_MAX];

	if (k->status_known && WIFSIGNALED(k->status))
		json_object_set_new(dead, "signal", json_string(signal_name(WTERMSIG(k->status), name)));
	else
		json_object_set_new(dead, "exit_code",
				    json_integer(k->status_known ? WEXITSTATUS(k->status) : 255));
	if (out_of_memory(k))
		json_object_set_new(dead, "reason", json_string("out-of-memory"));
	else if (!k->status_known && !k->start_error)
		json_object_set_new(dead, "reason", json_string("unknown"));
	if (crash)
		json_object_set_new(dead, "crash", crash);
	return dead;
}

/* The killed of the last one: hundreds of them may take their memory and their places with them for seconds, and the
 * next would die of that. */
static bool group_dies(const struct kernel *k)
{
	return k->last_pid && kill(-k->last_pid, 0) == 0 && now_ms() - k->since < KERNEL_GONE_MS;
}

static void start_again(uv_timer_t *timer)
{
	struct kernel *k = timer->data;

	if (group_dies(k))
		uv_timer_start(timer, start_again, DRAIN_TICK_MS, 0);
	else
		kernel_start(k);
}

/* This generation is over: tell, then the next one, or nothing. */
static void generation_over(struct kernel *k)
{
	bool asked = k->wish == KERNEL_WISH_RESTART;
	bool restarting = asked || (k->wish == KERNEL_NO_WISH && may_restart(k));
	bool at_once = !k->start_error;

	kernel_output_left(k);
	kernel_channel_state(k, dead_json(k, restarting));
	jupyter_close(k->jupyter);
	k->jupyter = NULL;
	kernel_start_stop(k);
	kernel_interrupt_answered(k);
	kernel_identity_end(k, NULL);
	free(k->start_error);
	k->start_error = NULL;
	k->last_pid = k->pid;
	k->pid = 0;
	if (k->wish == KERNEL_WISH_DELETE)
		return kernel_free(k);
	kernel_phase_set(k, KERNEL_DEAD);
	if (restarting && at_once)
		start_again(&k->timer);
	else if (restarting)
		uv_timer_start(&k->timer, start_again, PARENT_RETRY_MS, 0);
}

void kernel_failed(struct kernel *k, char *message)
{
	struct request *starter = k->starter;
	bool first = starter && k->generation <= 1;

	log_line("kernel %s cannot start: %s", k->id, message);
	k->starter = NULL;
	if (starter)
		request_fail(starter, 500, "kernel_start", "The kernel cannot start: %s.", message);
	if (first) {
		free(message);
		return kernel_free(k);
	}
	free(k->start_error);
	k->start_error = message;
	k->phase = KERNEL_DRAINING; /* nothing to let go of any more */
	generation_over(k);
}

static void drain_tick(uv_timer_t *timer)
{
	kernel_drain(timer->data);
}

/* Over when the sockets are empty and closed at the other end, or, where a
 * process left behind holds them, when nothing came for a while. */
void kernel_drain(struct kernel *k)
{
	uint64_t now = now_ms(), last;
	bool full;

	if (k->phase != KERNEL_DRAINING)
		return;
	jupyter_kick(k->jupyter);
	full = kernel_jupyter_ops.full(k->jupyter, k);
	last = jupyter_last(k->jupyter);
	if (last < k->since)
		last = k->since;
	if (jupyter_drained(k->jupyter) || (!full && now - last >= KERNEL_QUIET_MS))
		return generation_over(k);
	uv_timer_start(&k->timer, drain_tick, DRAIN_TICK_MS, 0);
}

static void crash_read(struct kernel *k)
{
	char bytes[4096];
	ssize_t n;
	int turns;

	/* Bounded: something left behind may go on writing. */
	for (turns = 0; k->stderr_fd >= 0 && turns < 64; turns++) {
		n = read(k->stderr_fd, bytes, sizeof(bytes));
		if (n <= 0)
			return;
		tail_add(&k->crash, bytes, (size_t)n);
	}
}

void kernel_died(struct kernel *k, int status, bool status_known)
{
	if (k->phase != KERNEL_STARTING && k->phase != KERNEL_ALIVE)
		return;
	k->status = status;
	k->status_known = status_known;
	kernel_tell_oom(k->agent);
	/* A child of it that lives on must not pass for the kernel; those that
	 * made a session of their own are the user's, and stay. */
	kill(-k->pid, SIGKILL);
	crash_read(k);
	kernel_channel_hold(k);
	kernel_phase_set(k, KERNEL_DRAINING);
	kernel_drain(k);
}
