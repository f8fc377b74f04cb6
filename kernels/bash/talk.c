#include "bash/talk.h"
#include "bash/interrupt.h"
#include "core/core.h"
#include "core/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/random.h>

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Nobody can write an end that is not theirs by chance, or by counting. */
static void make_token(char *out, size_t size)
{
	static unsigned long long key;
	static unsigned count;

	if (!count && getrandom(&key, sizeof(key), 0) != sizeof(key))
		log_line("no randomness for the shell's tokens");
	snprintf(out, size, "%llx.%x", key, ++count);
}

/* ---- interrupts ----
 *
 * The core writes to its descriptor, then raises SIGINT. Nudges of an earlier one
 * cut waiting short too, so only the signal counts; it makes the descriptor
 * readable again, as that may have been read meanwhile. */

static atomic_bool interrupted;
static const int *interrupt_fd;

static void on_interrupt(int sig)
{
	int saved = errno;
	uint64_t one = 1;

	(void)sig;
	atomic_store(&interrupted, true);
	/* Full only where it is readable already. */
	if (write(*interrupt_fd, &one, sizeof(one)) < 0)
		one = 0;
	errno = saved;
}

void talk_take_interrupts(const int *fd)
{
	struct sigaction act = { .sa_handler = on_interrupt };

	interrupt_fd = fd;
	sigaction(SIGINT, &act, NULL);
}

bool talk_interrupted(void)
{
	return atomic_exchange(&interrupted, false);
}

/* ---- what the shell is sent ---- */

static int send_line(struct talk *t, const char *line)
{
	size_t n = strlen(line);

	/* The pipe is empty but for a few ends: a shell that does not take this
	 * has stopped reading. */
	return write(t->sh->control, line, n) == (ssize_t)n ? 0 : -EPIPE;
}

/* Redirected, so that set -x does not show what is not the user's. */
#define END "{ __carrel_end %s; } 2>/dev/null\n"

static void send_end(struct talk *t)
{
	char line[100];

	/* An interrupt that is still to be heeded drops the first character read. */
	snprintf(line, sizeof(line), "\n" END, t->token);
	send_line(t, line);
}

static int send_command(struct talk *t, bool cell)
{
	struct bash_shell *sh = t->sh;
	char line[2 * PATH_MAX];

	if (cell)
		snprintf(line, sizeof(line),
			 "{ __carrel_begin %s %d && :; } 2>/dev/null; \\. '%s' <\"$__carrel_stdin\"; " END,
			 t->token, sh->status, sh->code_path, t->token);
	else
		snprintf(line, sizeof(line), "{ \\. '%s' || :; } </dev/null >/dev/null 2>&1; " END,
			 sh->code_path, t->token);
	return send_line(t, line);
}

/* Once it has set up, __carrel_end is there; its descriptors stay as they are now. */
static void send_start(struct talk *t)
{
	char line[2 * PATH_MAX];

	snprintf(line, sizeof(line), "\\. '%s'; " END, t->sh->code_path, t->token);
	send_line(t, line);
}

/* ---- what it says ---- */

static void take_end(struct talk *t, const char *text)
{
	char token[32], flags[SHELL_FLAGS_MAX] = "";
	int status;

	if (sscanf(text, "E %31s %d %63s", token, &status, flags) < 2 || strcmp(token, t->token))
		return;
	t->done = true;
	t->status = status & 255;
	memcpy(t->sh->flags, flags, sizeof(flags));
}

static void take_record(void *arg, char *text, size_t len)
{
	struct talk *t = arg;
	int status;

	if (t->done)
		return;
	if (text[0] == 'E') {
		take_end(t, text);
	} else if (text[0] == 'A' && sscanf(text, "A %d", &status) == 1) {
		if (!t->aborted)
			t->abort_status = status & 255;
		t->aborted = true;
		send_end(t);
		t->again = TALK_AGAIN_TIMES;
		t->again_at = now_ms() + TALK_AGAIN_MS;
	} else if (text[0] == 'B' && len > 2 && !strcmp(text + 2, t->token)) {
		t->begun = true;
		if (t->waiting)
			talk_interrupt(t);
	} else if (t->record) {
		t->record(t->arg, text, len);
	}
}

static void read_records(struct talk *t)
{
	char data[16384];
	ssize_t n;

	do {
		n = read(t->sh->up[0], data, sizeof(data));
		if (n > 0)
			record_feed(&t->sh->reader, data, (size_t)n, take_record, t);
	} while (n > 0 && !t->done);
}

/* ---- while it runs ---- */

void talk_interrupt(struct talk *t)
{
	long long now = now_ms();

	if (!t->begun && !t->waiting) {
		t->waiting = true;
		t->begin_at = now + TALK_BEGIN_MS;
		return;
	}
	t->waiting = false;
	t->begun = true;
	if (!t->interrupts++)
		t->first_at = now;
	if (t->interrupts > 2 && now - t->first_at >= TALK_INTERRUPT_KILL_MS) {
		bash_shell_signal_session(t->sh, SIGKILL);
		return;
	}
	/* Jobs under set -m have groups of their own. */
	if (now - t->first_at >= TALK_INTERRUPT_ALL_MS)
		bash_shell_signal_session(t->sh, SIGINT);
	t->signalled = interrupt_group(t->sh->pid);
	send_end(t);
	t->again = TALK_AGAIN_TIMES;
	t->again_at = now + TALK_AGAIN_MS;
}

static int next_wait(const struct talk *t, long long now)
{
	long long at = t->look_at;

	if (t->again && t->again_at < at)
		at = t->again_at;
	if (t->limit_ms && t->limit_at < at)
		at = t->limit_at;
	if (t->waiting && t->begin_at < at)
		at = t->begin_at;
	return at <= now ? 0 : (int)(at - now);
}

static void look(struct talk *t, long long now)
{
	t->look_at = now + TALK_LOOK_MS;
	t->looks = bash_shell_is_deaf(t->sh) ? t->looks + 1 : 0;
	if (t->looks < TALK_LOOKS_DEAF)
		return;
	/* Its end may have been dropped by an interrupt that was not ours. */
	if (!t->deaf) {
		t->deaf = true;
		t->looks = 0;
		send_end(t);
		return;
	}
	bash_shell_signal_session(t->sh, SIGKILL);
}

static void on_time(struct talk *t)
{
	long long now = now_ms();

	if (t->again && now >= t->again_at) {
		t->again--;
		t->again_at = now + (TALK_AGAIN_MS << (TALK_AGAIN_TIMES - t->again));
		if (t->signalled)
			interrupt_again(t->sh->pid, t->signalled);
		send_end(t);
	}
	if (t->limit_ms && now >= t->limit_at) {
		t->limit_at = now + TALK_INTERRUPT_KILL_MS;
		talk_interrupt(t);
	}
	if (t->waiting && now >= t->begin_at)
		talk_interrupt(t);
	if (now >= t->look_at)
		look(t, now);
}

/* The client's interrupt, or the word to stop: true. */
static bool take_orders(struct talk *t, const struct pollfd *interrupt, const struct pollfd *wake)
{
	uint64_t count;

	if (interrupt->revents && read(t->core->interrupt_fd, &count, sizeof(count)) > 0 &&
	    talk_interrupted())
		talk_interrupt(t);
	/* Requests by control are looked for after every command anyway. */
	if (wake->revents && read(t->core->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_line("cannot read the wake-up: %s", strerror(errno));
	return atomic_load(&t->core->stop);
}

static enum talk_end wait_end(struct talk *t)
{
	struct pollfd fds[4] = {
		{ .fd = t->sh->up[0], .events = POLLIN },
		{ .fd = t->sh->pidfd, .events = POLLIN },
		{ .fd = t->core ? t->core->interrupt_fd : -1, .events = POLLIN },
		{ .fd = t->core ? t->core->wake_fd : -1, .events = POLLIN },
	};

	for (;;) {
		if (poll(fds, 4, next_wait(t, now_ms())) < 0) {
			if (errno != EINTR)
				log_line("cannot wait for the shell: %s", strerror(errno));
			continue;
		}
		/* What a shell wrote before it died counts. */
		if (fds[0].revents || fds[1].revents)
			read_records(t);
		if (t->done)
			return TALK_DONE;
		if (fds[1].revents && bash_shell_ended(t->sh, &t->end))
			return TALK_DIED;
		if (t->core && take_orders(t, &fds[2], &fds[3]))
			return TALK_STOP;
		on_time(t);
	}
}

static void begin(struct talk *t)
{
	long long now = now_ms();

	make_token(t->token, sizeof(t->token));
	t->look_at = now + TALK_LOOK_MS;
	t->limit_at = now + t->limit_ms;
	t->begun = !t->core;
}

enum talk_end talk_run(struct talk *t, bool cell)
{
	enum talk_end end;

	begin(t);
	if (send_command(t, cell) && bash_shell_is_alive(t->sh)) {
		/* It does not read: nothing but its end can come of it. */
		t->deaf = true;
		bash_shell_signal_session(t->sh, SIGKILL);
	}
	end = wait_end(t);
	if (end == TALK_DONE && cell && t->keep_status)
		t->sh->status = t->aborted ? t->abort_status : t->status;
	return end;
}

/* Not all can be taken: what only the system sets is refused, which does no harm. */
static bool take_over(struct bash_shell *sh)
{
	struct talk t = { .sh = sh, .limit_ms = TALK_OWN_MS };
	BUF_AUTO text = { 0 };

	return bash_shell_take_state(sh, &text) && bash_shell_set_code(sh, text.data, text.len) == 0 &&
	       talk_run(&t, false) == TALK_DONE && !t.interrupts;
}

static int set_up(struct talk *t, char *why, size_t why_size)
{
	BUF_AUTO text = { 0 };
	int err;

	bash_shell_setup_text(t->sh, &text);
	err = text.failed ? -ENOMEM : bash_shell_set_code(t->sh, text.data, text.len);
	if (err) {
		snprintf(why, why_size, "cannot hand the shell its setup: %s", strerror(-err));
		return err;
	}
	err = bash_shell_spawn(t->sh, why, why_size);
	if (err)
		return err;
	begin(t);
	send_start(t);
	if (wait_end(t) == TALK_DONE)
		return 0;
	snprintf(why, why_size, "bash did not start: it ended with %s %d",
		 t->end.signal ? "signal" : "exit code", t->end.signal ? t->end.signal : t->end.code);
	return -EIO;
}

int talk_start(struct bash_shell *sh, bool *ret_heir, char *why, size_t why_size)
{
	struct talk t = { .sh = sh, .limit_ms = TALK_START_MS };
	int err = set_up(&t, why, why_size);

	if (err) {
		bash_shell_signal_session(sh, SIGKILL);
		bash_shell_stop(sh);
		return err;
	}
	*ret_heir = take_over(sh);
	/* It ended over what it took: one that takes nothing. */
	return sh->pid ? 0 : set_up(&t, why, why_size);
}
