/* The shell: one bash that lives as long as the kernel or until it ends itself.
 *
 * It is an interactive bash without a terminal, the leader of a session of its
 * own: an interrupt then ends what runs and leaves the shell and its variables.
 * It reads one line for each command from a pipe on its descriptor 0 (bash/talk.h
 * writes it); the user's code is sourced from a memory file with another one, its
 * standard input, on descriptor 0, so that no code of the user's can read a
 * command. Records come back by a pipe that bash opens by its name in /proc.
 *
 * No thread but the main one uses it. One bash_shell_open() a process.
 */
#ifndef CARREL_BASH_SHELL_H
#define CARREL_BASH_SHELL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "bash/record.h"

enum {
	/* Milliseconds for a shell to end by itself, its trap on EXIT included,
	 * then to obey a hang-up, before it is killed. */
	SHELL_END_MS = 300,
	/* $- has some 15 letters. */
	SHELL_FLAGS_MAX = 64,
	/* Bytes of variables and functions that a new shell takes over. */
	SHELL_STATE_MAX = 16 * 1024 * 1024,
};

struct bash_shell {
	pid_t pid; /* 0: none runs */
	int pidfd;
	int control; /* the shell's commands */
	/* Both ends of pipes: the kernel keeps them so that their names work. */
	int up[2], answers[2], acks[2];
	/* Memory files: the cell, its standard input, what a shell that exits leaves. */
	int code, input, state;
	char tmp[PATH_MAX]; /* a folder of its own, "" when none could be made */
	char code_path[PATH_MAX + 8];
	struct record_reader reader;
	int status; /* of the last cell: the next one's $? */
	char flags[SHELL_FLAGS_MAX];
};

/* How a shell ended: exit code, or the number of a signal. */
struct bash_shell_end {
	int code;
	int signal; /* 0: it exited */
};

/* Make what every shell of this kernel uses. -errno with a sentence in why. */
int bash_shell_open(struct bash_shell *sh, char *why, size_t why_size);
/* Start bash. It has not read its first command yet. */
int bash_shell_spawn(struct bash_shell *sh, char *why, size_t why_size);
/* What the first command of a new shell must run. */
void bash_shell_setup_text(const struct bash_shell *sh, struct buf *out);
/* What the last shell that exited left: text for the new one to run. False: nothing. */
bool bash_shell_take_state(struct bash_shell *sh, struct buf *out);
bool bash_shell_is_alive(const struct bash_shell *sh);
/* True once when the shell ended by itself. */
bool bash_shell_ended(struct bash_shell *sh, struct bash_shell_end *ret);
/* Text for the next command to source. Cuts the cell's standard input to nothing. */
int bash_shell_set_code(struct bash_shell *sh, const char *text, size_t n);
/* More for the cell's standard input. */
int bash_shell_add_input(struct bash_shell *sh, const char *text, size_t n);
/* The foreground, or everything in the shell's session. */
void bash_shell_signal(const struct bash_shell *sh, int sig);
void bash_shell_signal_session(const struct bash_shell *sh, int sig);
/* The shell waits for a command although none was answered: it will not answer. */
bool bash_shell_is_deaf(const struct bash_shell *sh);
/* End it: by itself within SHELL_END_MS or by force, its whole session. */
void bash_shell_stop(struct bash_shell *sh);
void bash_shell_close(struct bash_shell *sh);

#endif
