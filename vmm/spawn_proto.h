/* The fixed verbs between carreld and carrel-spawn, over a SOCK_SEQPACKET unix
 * socket ($RUN/spawn.sock). One request a packet, one reply a packet with the
 * same serial, and events (serial 0) for sandboxes that ended.
 *
 * carrel-spawn opens nothing on carreld's behalf: every file a sandbox needs
 * comes as a descriptor with the request (SCM_RIGHTS), opened by carreld with
 * carreld's own rights. It parses no HTTP, no JSON and no guest bytes, and
 * treats the files as opaque. Every field is checked; an unknown verb, length
 * or version is answered with an error and changes nothing.
 */
#ifndef CARREL_SPAWN_PROTO_H
#define CARREL_SPAWN_PROTO_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	SPAWN_VERSION = 1,
	SPAWN_ID_MAX = 40,       /* sandbox id with its NUL; [a-z0-9-] only, it names files and cgroups */
	SPAWN_MESSAGE_MAX = 256, /* a sentence for a person */
	SPAWN_REASON_MAX = 64,
	SPAWN_SANDBOXES_MAX = 1024, /* one uid each; more than a host of this kind can run */
};

enum spawn_verb {
	SPAWN_START = 1, /* with descriptors: see enum spawn_fd */
	SPAWN_STOP,      /* kill at once; reason in .reason */
	SPAWN_FREEZE,    /* cgroup freezer on */
	SPAWN_THAW,
	SPAWN_STAT,      /* is it there, what does it use, why did it end */
	SPAWN_DEADLINE,  /* set the keeper's hard deadline */
	SPAWN_FORGET,    /* an ended sandbox: remove its runtime directory and cgroup */
	SPAWN_PAGES,     /* write a stopped clone's private pages (vmm/pages.h) into SPAWN_FD_PAGES,
			  * which is emptied first, with the sum of SPAWN_FD_STATE, saved just before */
	SPAWN_EVENT_ENDED = 128,
};

enum spawn_engine {
	SPAWN_ENGINE_TCG = 1,
	SPAWN_ENGINE_QEMU_KVM,
	SPAWN_ENGINE_KVM, /* carrel-vmm: takes no descriptors here, carreld hands them to it (vmm/machine/control.h) */
	SPAWN_ENGINE_JAIL, /* SPAWN_BOOT only, of root image, guest programs and scratch disk */
};

/* Descriptors of SPAWN_START and SPAWN_PAGES, in this order; those the mode does
 * not need are left out of fds_mask (bit = 1 << enum). */
enum spawn_fd {
	SPAWN_FD_RAM,     /* guest memory file; clone, resume: read-only, mapped private; template: read-write, shared */
	SPAWN_FD_STATE,   /* device state; clone, resume, SPAWN_PAGES: read. A save's goes over QEMU's monitor */
	SPAWN_FD_ROOTFS,  /* read-only base image */
	SPAWN_FD_SCRATCH, /* this sandbox's writable disk, read-write */
	SPAWN_FD_KERNEL,  /* vmlinux */
	SPAWN_FD_INITRD,
	SPAWN_FD_PAGES, /* private pages; resume: read; SPAWN_PAGES: read-write, not for appending */
	SPAWN_FD_GUEST, /* the guest programs as a disk: of the engine jail, which has no initrd */
	SPAWN_FD_COUNT,
};

enum spawn_mode {
	SPAWN_BOOT = 1,
	SPAWN_TEMPLATE,
	SPAWN_CLONE,
	SPAWN_RESUME, /* a clone with the private pages and the device state of one that was saved */
};

/* Its memory is the snapshot's, copied on write; it goes on instead of booting. */
static inline bool spawn_mode_clones(uint32_t mode)
{
	return mode == SPAWN_CLONE || mode == SPAWN_RESUME;
}

struct spawn_request {
	uint32_t version;
	uint32_t verb;
	uint64_t serial;
	char id[SPAWN_ID_MAX];
	/* SPAWN_START; SPAWN_PAGES: fds_mask only */
	uint32_t engine;
	uint32_t mode;
	uint32_t fds_mask;
	uint32_t memory_mb;       /* guest RAM */
	uint32_t vcpus;
	uint32_t host_memory_mb;  /* cgroup limit of the whole sandbox */
	uint32_t host_cpu_milli;  /* cgroup CPU quota, thousandths of one CPU */
	uint32_t tsc_khz;         /* for the guest's command line */
	uint64_t deadline_boottime_ns; /* also SPAWN_DEADLINE; CLOCK_BOOTTIME, 0 = none */
	/* SPAWN_STOP */
	char reason[SPAWN_REASON_MAX];
};

struct spawn_reply {
	uint32_t version;
	uint32_t verb;      /* of the request, or SPAWN_EVENT_ENDED */
	uint64_t serial;
	char id[SPAWN_ID_MAX];
	int32_t error;      /* 0 or a negative errno */
	uint32_t running;   /* SPAWN_STAT */
	uint64_t memory_bytes; /* cgroup usage */
	uint64_t cpu_usec;
	char reason[SPAWN_REASON_MAX];     /* why it ended: "deadline", "asked", "crashed(SIGSEGV)", "crashed(1)", … or "" */
	char message[SPAWN_MESSAGE_MAX];   /* a sentence when error != 0 */
};

static_assert(sizeof(struct spawn_request) == 160, "fixed wire layout");
static_assert(sizeof(struct spawn_reply) == 400, "fixed wire layout");

/* Runtime files of a sandbox, below $STATE/run/ID/ (made by carrel-spawn,
 * group carreld, mode 0750):
 *   agent.sock  the link          qmp.sock   QEMU's monitor, or control.sock carrel-vmm's control; the engine jail has none
 *   keeper.sock adoption, root only          reason  written by the keeper at the end
 *   console.log bounded boot messages of the guest, and stderr of QEMU or carrel-vmm: qemu.log
 */
#endif
