/* How many new files the sandbox's disk takes.
 *
 * With a kernel of its own: a quota of the user's, which counts from the first time it is asked for. A jail's disk
 * was made with as many inodes as were asked for, and some for its own use; what is left over of those is taken.
 * Root inside can undo both. */
#ifndef CARREL_AGENT_INODES_H
#define CARREL_AGENT_INODES_H

#include <stdint.h>

struct agent;

/* 0: as many as the disk has. Negative errno. */
int inodes_limit(struct agent *a, uint64_t most);

#endif
