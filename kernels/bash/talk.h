/* One command of the shell: send it, take what it says, until its end came back.
 *
 * The end is a record with a token of its own, written by the shell's own loop
 * after the command, whatever the command did; output of the user's code is never
 * looked at. A command that was dropped (interrupt, set -e) does not write its
 * end: then the end alone is sent once more, and again, as an interrupt can hit
 * that too; ends that come twice are passed over by their token.
 */
#ifndef CARREL_BASH_TALK_H
#define CARREL_BASH_TALK_H

#include <stdbool.h>
#include "bash/shell.h"

struct core;

enum {
	/* Milliseconds from an interrupt until the end is asked for once more,
	 * doubled each time. */
	TALK_AGAIN_MS = 25,
	TALK_AGAIN_TIMES = 8,
	/* Milliseconds an interrupt waits for the shell to have read the command:
	 * until then it would only break what is being read. */
	TALK_BEGIN_MS = 250,
	/* An interrupt so long after the first, the shell has not come back since:
	 * a second one reaches every job, a third one ends the shell. */
	TALK_INTERRUPT_ALL_MS = 250,
	TALK_INTERRUPT_KILL_MS = 500,
	/* Milliseconds between two looks at a shell that has not answered, and how
	 * many must find it waiting for a command: its end was dropped by an
	 * interrupt that was not ours, and when it does not come then, it was made
	 * deaf. */
	TALK_LOOK_MS = 250,
	TALK_LOOKS_DEAF = 2,
	/* Milliseconds for a command of the kernel's own (completion, help) and for
	 * a shell to start on a slow machine. */
	TALK_OWN_MS = 5 * 1000,
	TALK_START_MS = 60 * 1000,
};

enum talk_end {
	TALK_DONE,
	TALK_DIED, /* how is in end */
	TALK_STOP, /* the kernel is to stop, the command still runs */
};

struct talk {
	struct bash_shell *sh;
	/* The cell that runs: takes interrupts and the word to stop. NULL: a
	 * command of the kernel's own, interrupted after limit_ms. */
	struct core *core;
	int limit_ms;
	bool keep_status; /* it is the next cell's $? */
	/* Records that are not the end. */
	void (*record)(void *arg, char *text, size_t len);
	void *arg;

	/* Results. */
	int status;
	unsigned interrupts;
	bool aborted; /* by set -e, with abort_status */
	int abort_status;
	bool deaf; /* it was killed for that */
	struct bash_shell_end end;

	/* While it runs. */
	char token[32];
	bool done;
	bool begun, waiting; /* waiting: an interrupt, for that */
	unsigned again;
	long long again_at, limit_at, look_at, begin_at, first_at;
	unsigned long long signalled; /* when, for interrupt_again(); 0: never */
	unsigned looks;
};

/* Run the text set by bash_shell_set_code(): as a cell, its status and input its own, or
 * as a command of the kernel's own, which prints nothing. */
enum talk_end talk_run(struct talk *t, bool cell);
/* Start a shell and set it up; it takes over what the last one left, if that left
 * something (*ret_heir). -errno with a sentence in why. */
int talk_start(struct bash_shell *sh, bool *ret_heir, char *why, size_t why_size);
/* Heed SIGINT, which the core sends for an interrupt: descriptor fd, where the core
 * tells it too, becomes readable. At the start of the process. */
void talk_take_interrupts(const int *fd);
/* Whether there was one since it was asked last. */
bool talk_interrupted(void);
/* Interrupt what runs: the client asked while the main thread waits elsewhere. */
void talk_interrupt(struct talk *t);

#endif
