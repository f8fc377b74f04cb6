/* What the appliance asks of an engine (kvm, tcg, jail): one ops struct.
 *
 * All calls come from the hub's loop thread and return at once; the outcome
 * arrives through struct vm_ops on the same thread. Rules every engine keeps:
 *   - start() either returns an error and calls nothing, or ends in exactly one
 *     of started() or ended(). After started() exactly one ended() follows.
 *   - stop() works from every state and may be repeated; ended() follows within
 *     seconds. ended() is the last call; vm_free() is legal from then on.
 *   - started() means: the machine runs and agent_path can be connected.
 *   - an engine knows nothing of HTTP, SQLite or Jupyter, and reads no byte of
 *     the link.
 *   - descriptors in vm_config stay the caller's; they are duplicated.
 *   - adopt() takes a machine that outlived a restart of carreld.
 */
#ifndef CARREL_ENGINE_H
#define CARREL_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "spawn_proto.h"

struct vm;
struct engine;

/* Size class: what a snapshot fixes for its clones. */
struct vm_class {
	unsigned memory_mb;
	unsigned vcpus;
	unsigned disk_mb;
};

enum vm_mode { VM_BOOT = SPAWN_BOOT, VM_TEMPLATE = SPAWN_TEMPLATE, VM_CLONE = SPAWN_CLONE };

struct vm_config {
	const char *id; /* [a-z0-9-], below SPAWN_ID_MAX */
	enum vm_mode mode;
	struct vm_class cls;
	int ram_fd, state_fd, rootfs_fd, scratch_fd, kernel_fd, initrd_fd; /* -1: not used by the mode */
	unsigned cpu_milli;              /* host CPU quota without the engine's own share */
	uint64_t deadline_boottime_ns;   /* 0: none */
};

struct vm_ops {
	void (*started)(struct vm *vm, const char *agent_path, void *arg);
	/* reason: "asked", "deadline", "host-restart", "out-of-memory", "crashed(SIGSEGV)", …;
	 * message: a sentence, for start failures above all. */
	void (*ended)(struct vm *vm, const char *reason, const char *message, void *arg);
	/* pause, resume, save: err 0 or negative errno, message a sentence then. */
	void (*done)(struct vm *vm, int err, const char *message, void *arg);
};

struct engine_ops {
	const char *name;   /* as the API shows it: "tcg", "kvm" */
	const char *accel;  /* part of a snapshot's key: "tcg,Nehalem", "kvm,host" */
	/* 0 when this host can run it; else -ENODEV and the reason as a sentence. */
	int (*probe)(char *ret_why, unsigned size);
	int (*start)(struct engine *e, const struct vm_config *config, const struct vm_ops *ops, void *arg,
		     struct vm **ret);
	int (*adopt)(struct engine *e, const char *id, const struct vm_ops *ops, void *arg, struct vm **ret);
	/* Stop the vCPUs; run them again. done() follows. */
	int (*pause)(struct vm *vm);
	int (*resume)(struct vm *vm);
	/* VM_TEMPLATE, paused: write device state into state_fd; RAM is in ram_fd already. done() follows. */
	int (*save)(struct vm *vm);
	int (*stop)(struct vm *vm, const char *reason);
	int (*set_deadline)(struct vm *vm, uint64_t boottime_ns);
	void (*free)(struct vm *vm);
};

/* The engines this build has, in the order of `auto`; ends with NULL. */
extern const struct engine_ops *const engines[];

/* The connection to carrel-spawn that an engine starts its machines through;
 * reconnects by itself. spawn_path and run_dir are kept by reference.
 * lost machines (ended while nobody listened) are reported on reconnect. */
int engine_new(uv_loop_t *loop, const struct engine_ops *ops, const char *spawn_path, const char *run_dir,
	       struct engine **ret);
void engine_free(struct engine *e);
const struct engine_ops *engine_ops_of(const struct engine *e);

/* Facts that bind a snapshot to this host and engine, as one line for its
 * manifest and its key: QEMU version, accelerator, CPU model, argument list
 * revision, TSC rate class. Same line = the snapshot can be cloned here. */
int engine_fingerprint(const struct engine_ops *ops, char *ret_line, unsigned size);

/* Measured megabytes the engine adds to guest RAM on the host (translation buffer and QEMU itself). */
unsigned engine_overhead_mb(const struct engine_ops *ops);

#endif
