/* What a clone changed of its snapshot's memory, in the file of vmm/pages.h: every
 * page that vCPUs wrote (KVM's log) or devices did (our own), complete relative to
 * the memory file however often the machine was saved before. Tracking costs a
 * clone nothing: its memory is mapped page by page, private, in any case.
 */
#ifndef CARREL_SNAPSHOT_PAGES_FILE_H
#define CARREL_SNAPSHOT_PAGES_FILE_H

#include "state.h"

/* Marked pages of memory that is mapped from memory_fd; fd is emptied first, its header written last. s: the
 * sealed state it belongs to. */
int pages_file_save(const struct guest_memory *m, int memory_fd, const struct state *s, int fd,
		    struct problem *p);

/* Into memory that is mapped and tracked, before a vCPU runs; its pages are marked. The file is read as
 * hostile input: -EINVAL unless it is whole and belongs to this memory file and state. */
int pages_file_load(const struct guest_memory *m, int memory_fd, const struct state *s, int fd,
		    struct problem *p);

#endif
