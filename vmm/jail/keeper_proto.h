/* Between carrel-spawn and carrel-keeper.
 *
 * carrel-spawn starts the keeper with the descriptors below at fixed numbers
 * and sends struct keeper_config as the first packet on KEEPER_FD_PARENT. The
 * keeper answers once with a struct keeper_reply of verb KEEPER_STARTED (error
 * 0, or a negative errno and a sentence, then it exits). From then on both
 * KEEPER_FD_PARENT and every connection to keeper.sock take struct
 * keeper_request packets and answer each in order.
 *
 * QEMU inherits the descriptors from KEEPER_FD_AGENT on, at the same numbers,
 * so that arguments and monitor commands can name them.
 */
#ifndef CARREL_KEEPER_PROTO_H
#define CARREL_KEEPER_PROTO_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmm/spawn_proto.h"

enum { KEEPER_VERSION = 1, KEEPER_PATH_MAX = 512 };

enum keeper_fd {
	KEEPER_FD_PARENT = 3,    /* SOCK_SEQPACKET to the carrel-spawn that started it */
	KEEPER_FD_CONTROL,       /* keeper.sock, bound; the keeper listens, so that its pid is the peer's */
	KEEPER_FD_REASON,        /* file, for writing */
	KEEPER_FD_CONSOLE_LOG,   /* file, for reading and writing */
	KEEPER_FD_QEMU_LOG,      /* file, for reading and writing */
	KEEPER_FD_GUEST_CGROUP,  /* cgroup.procs of the group that freezes: QEMU's, not the keeper's */
	KEEPER_FD_THAW,          /* its freezer; takes config.thaw */
	KEEPER_FD_MEMORY_EVENTS, /* a file with a line "oom_kill N" */
	KEEPER_FD_READY,   /* connected to the monitor: its first answer says that QEMU's main loop runs; the engine jail has none */
	KEEPER_FD_AGENT,   /* agent.sock, listening */
	KEEPER_FD_MONITOR, /* qmp.sock or control.sock, listening; the engine jail has none */
	KEEPER_FD_CONSOLE, /* write end of the keeper's console pipe */
	KEEPER_FD_KVM,     /* /dev/kvm, where it is used */
	KEEPER_FD_FILES,   /* KEEPER_FD_FILES + enum spawn_fd */
	KEEPER_FD_END = KEEPER_FD_FILES + SPAWN_FD_COUNT,
};

enum keeper_verb { KEEPER_STARTED = 1, KEEPER_STOP, KEEPER_DEADLINE, KEEPER_STAT };

struct keeper_config {
	uint32_t version;
	uint32_t engine; /* enum spawn_engine */
	uint32_t mode;   /* enum spawn_mode */
	uint32_t fds_mask;
	uint32_t memory_mb;
	uint32_t vcpus;
	uint32_t tsc_khz;
	uint32_t guest_uid;  /* of QEMU; its gid as well */
	uint32_t keeper_uid; /* of the keeper once QEMU runs */
	uint32_t pad;
	uint64_t deadline_boottime_ns; /* 0: none */
	char id[SPAWN_ID_MAX];
	char thaw[8];                  /* what KEEPER_FD_THAW takes */
	char program[KEEPER_PATH_MAX]; /* QEMU, real path, below /usr; or carrel-vmm */
	char preload[KEEPER_PATH_MAX]; /* carrel-preload.so; "" for carrel-vmm */
	/* The engine jail's: the first of its users, and where version 1 has its groups. */
	uint32_t users_base;
	uint32_t read_only; /* its root */
	char pids_group[KEEPER_PATH_MAX], memory_group[KEEPER_PATH_MAX]; /* "": version 2 */
};

struct keeper_request {
	uint32_t version;
	uint32_t verb;
	uint64_t deadline_boottime_ns; /* KEEPER_DEADLINE; 0: none */
	char reason[SPAWN_REASON_MAX]; /* KEEPER_STOP */
};

struct keeper_reply {
	uint32_t version;
	uint32_t verb;
	int32_t error;
	uint32_t pad;
	uint64_t deadline_boottime_ns;
	char message[SPAWN_MESSAGE_MAX];
};

/* Our own monitor is given its files by carreld (vmm/machine/control.h). */
static inline bool keeper_own_monitor(const struct keeper_config *c)
{
	return c->engine == SPAWN_ENGINE_KVM;
}

/* Neither a monitor nor a guest's kernel: process 1 of the sandbox is the agent. */
static inline bool keeper_no_monitor(const struct keeper_config *c)
{
	return c->engine == SPAWN_ENGINE_JAIL;
}

static inline bool keeper_uses_kvm(const struct keeper_config *c)
{
	return c->engine == SPAWN_ENGINE_KVM || c->engine == SPAWN_ENGINE_QEMU_KVM;
}

static_assert(sizeof(struct keeper_config) == 2152, "fixed wire layout");
static_assert(sizeof(struct keeper_request) == 80, "fixed wire layout");
static_assert(sizeof(struct keeper_reply) == 280, "fixed wire layout");

#endif
