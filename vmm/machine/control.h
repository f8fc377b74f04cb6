/* What the monitor's owner asks of it: fixed-size binary messages over a
 * SOCK_SEQPACKET pair, files as descriptors beside them. One request at a time,
 * each answered by one reply with its serial; an event is a reply with serial 0.
 *
 * The owner is trusted with the machine, yet a request is read like a stranger's:
 * wrong sizes, masks and texts are answered with an error and change nothing.
 * Over a pair, the monitor ends when the owner's end closes. Over a listening
 * socket it serves one owner at a time: whoever connects is greeted with HELLO,
 * and the machine outlives the connection.
 */
#ifndef CARREL_MACHINE_CONTROL_H
#define CARREL_MACHINE_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "problem.h"

enum { CONTROL_VERSION = 1 };

enum control_verb {
	CONTROL_START = 1, /* boot, or go on from a snapshot if STATE is among the files */
	CONTROL_PAUSE,
	CONTROL_SNAPSHOT, /* of a paused machine, into STATE and one of MEMORY and PAGES */
	CONTROL_RESUME,
	CONTROL_STAT,
	CONTROL_BALLOON, /* how much the guest is to give up */
	CONTROL_QUIT,
	CONTROL_ENDED, /* event only: the guest ended; the monitor ends with it */
	CONTROL_HELLO, /* event only: to an owner that connected, with the machine's state */
};

/* Bit numbers of the mask `files`; descriptors come in this order. */
enum control_file {
	CONTROL_KERNEL,
	CONTROL_INITRD,
	CONTROL_ROOTFS,  /* read-only disk */
	CONTROL_SCRATCH, /* writable disk */
	CONTROL_AGENT,   /* listening unix socket behind the port carrel.agent */
	CONTROL_CONSOLE, /* boot messages; none: they are dropped */
	CONTROL_MEMORY,  /* a snapshot's: copy-on-write for START, written by SNAPSHOT */
	CONTROL_STATE,
	CONTROL_PAGES, /* what differs from MEMORY: vmm/pages.h */
	CONTROL_FILES,
};

enum control_flag {
	CONTROL_PVH = 1, /* enter the kernel by its PVH entry */
};

struct control_request {
	uint32_t version, verb;
	uint64_t serial; /* the owner's, not 0 */
	uint32_t files;
	uint32_t flags;
	uint32_t memory_mb; /* START */
	uint32_t vcpus;
	uint32_t balloon_mb;
	uint32_t reserved;
	char cmdline[LAYOUT_CMDLINE_MAX];
};
_Static_assert(sizeof(struct control_request) == 40 + LAYOUT_CMDLINE_MAX, "both sides' layout");

enum control_state { CONTROL_EMPTY, CONTROL_RUNNING, CONTROL_PAUSED, CONTROL_OVER };

struct control_reply {
	uint32_t version, verb;
	uint64_t serial;
	int32_t error; /* 0 or negative errno */
	uint32_t state;
	uint32_t memory_mb, vcpus;
	uint32_t balloon_mb; /* what the guest says it gave up */
	uint32_t reserved;
	char message[PROBLEM_MAX]; /* a sentence, with an error and with an event */
};
_Static_assert(sizeof(struct control_reply) == 40 + PROBLEM_MAX, "both sides' layout");

/* Is it a request that can be served? files_count descriptors came with it.
 * 0, or -EPROTO and what is wrong. */
int control_check(const struct control_request *r, size_t size, unsigned files_count, struct problem *p);

/* A request and its descriptors, by enum control_file, -1 where there is none. They are the caller's
 * to close, or take. */
struct control_message {
	struct control_request request;
	int files[CONTROL_FILES];
};

/* 0, -EAGAIN: none is there, -EPIPE: the owner is gone, -EPROTO: it cannot be served (request.serial and
 * verb are what they were), or another negative errno. Without 0 no descriptor is left open. */
int control_receive(int fd, struct control_message *ret, struct problem *p);
void control_message_close(struct control_message *m);

int control_send(int fd, const struct control_reply *reply);

#endif
