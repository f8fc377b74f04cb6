/* Ctrl-C for a shell without a terminal: SIGINT to its group, at the right moment.
 *
 * Bash leaves an interrupt to its child: when that ends by itself just as the signal
 * comes, the shell goes on as if nothing had been. And a child between fork() and
 * exec() loses it. So the group is held while it is looked at, and processes that
 * the signal should have ended, but has not, get it again.
 */
#ifndef CARREL_BASH_INTERRUPT_H
#define CARREL_BASH_INTERRUPT_H

#include <sys/types.h>

enum {
	/* Looks at a group that is not ready for it, and milliseconds between them. */
	INTERRUPT_LOOKS = 10,
	INTERRUPT_LOOK_MS = 1,
	/* So many that find the shell alone are believed: each costs a loop of its own
	 * commands some milliseconds, and one of forks is rarely alone twice. */
	INTERRUPT_LOOKS_ALONE = 2,
	/* Clock ticks (10 ms) in which a fork becomes another program, on a slow machine. */
	INTERRUPT_YOUNG_TICKS = 10,
};

/* Interrupt the shell and its foreground; it leads its group. Returns when this
 * was, for interrupt_again(). */
unsigned long long interrupt_group(pid_t shell);
/* SIGINT for processes of the group that are from before then, and that it ends. */
void interrupt_again(pid_t shell, unsigned long long since);

#endif
