/* The monitor's main thread: requests of its owner, and the machine they are about. */
#ifndef CARREL_MACHINE_SERVE_H
#define CARREL_MACHINE_SERVE_H

struct serve_fds {
	int control; /* connected or listening */
	int kvm;
	/* For a START that brings none of its own; -1: none. */
	int agent, console;
};

/* Runs until the machine is over or its owner gone. 0, or a negative errno that was said on stderr. */
int serve(const struct serve_fds *fds);

#endif
