/* What the appliance asks of an engine (kvm, tcg, jail): one ops struct.
 *
 * All calls come from the hub's loop thread and return at once; the outcome
 * arrives through struct vm_ops on the same thread. Rules every engine keeps;
 * tests/integration/engine_conformance.py holds an engine to them:
 *
 * Beginning and end
 *   - start() either returns an error and calls nothing, or ends in exactly one
 *     of started() or ended(). After started() exactly one ended() follows. A
 *     file that does not fit (of another size, cut off, of another snapshot or
 *     moment, of another version) ends in ended() with a sentence that says so,
 *     never in a machine that runs.
 *   - started() means: the machine runs and agent_path can be connected.
 *   - stop() works from every state, during every task, and may be repeated: the
 *     first reason holds. A task under way is over with a done() before ended(), -ECANCELED
 *     unless it was done; ended() follows within seconds, is the last call, and vm_free()
 *     is legal from then on.
 *   - set_deadline() works from every state up to ended(). A deadline ends a
 *     machine whatever it is doing, paused ones too, with every other part of
 *     Carrel down.
 *   - adopt() takes a machine that outlived a restart of carreld: started(), or
 *     ended() with the reason it ended for. It is as it was: running, paused or
 *     saved; resume() is right for all three, and harmless for a running one.
 *
 * Pause, resume, save
 *   - one task at a time: a second one is refused with -EBUSY and changes
 *     nothing. A task that was accepted ends in exactly one done(), and an
 *     error there leaves the machine as it was before, or paused.
 *   - pause() of a paused and resume() of a running machine succeed.
 *   - save() asks for a paused machine, once: after it, failed or not, resume()
 *     or stop() come next (-EINVAL otherwise). Its machine lives on: resume() continues
 *     it, which together with start(VM_RESUME) of the files is a fork.
 *   - from save() until its done(), who has the link neither reads, writes,
 *     opens nor closes it: a stopped machine's memory still changes with its
 *     link, and would not fit its state. What was on its way when save() was
 *     called does no harm; a resumed machine may have lost it.
 *   - a connection that is opened while the machine is being resumed, or right behind
 *     one that was closed under output, may stay deaf: who has no answer closes it
 *     and opens another. (QEMU throttles a port whose peer is away, and nothing but
 *     a close takes that back.)
 *   - save() writes the device state into state_fd and, unless it is a
 *     template, every page that differs privately from the snapshot's memory
 *     file into pages_fd (vmm/pages.h; both are emptied first). The two and a
 *     copy of the scratch disk taken before resume() or after stop() are one set. It
 *     is complete with respect to the snapshot, however often the machine was
 *     saved and resumed before. Durability (fsync, rename) is the caller's.
 *   - start(VM_RESUME) takes that set. It checks the set's sums but that of the
 *     pages' data, which would read them all: pages_verify() of vmm/host/pages.h.
 *     pages_fd may be closed, replaced or removed while the machine runs, but
 *     its bytes must stay as they are: it may still be mapped.
 *   - an engine that cannot save (.saves false) answers -ENOTSUP, and starts by
 *     VM_BOOT only; a VM_BOOT machine of another, whose memory is no snapshot's, -EINVAL.
 *
 * Besides
 *   - an engine knows nothing of HTTP, SQLite or Jupyter, and reads no byte of
 *     the link.
 *   - descriptors stay the caller's; they are duplicated.
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

enum vm_mode {
	VM_BOOT = SPAWN_BOOT,
	VM_TEMPLATE = SPAWN_TEMPLATE,
	VM_CLONE = SPAWN_CLONE,
	VM_RESUME = SPAWN_RESUME, /* a clone with the pages, state and disk of one that was saved */
};

struct vm_config {
	const char *id; /* [a-z0-9-], below SPAWN_ID_MAX */
	enum vm_mode mode;
	struct vm_class cls;
	/* -1: not used by the mode. ram_fd: the template's, also of a resumed machine. */
	int ram_fd, state_fd, pages_fd, rootfs_fd, scratch_fd, kernel_fd, initrd_fd, guest_fd;
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
	const char *name;    /* as the API shows it: "tcg", "kvm", "jail" */
	const char *monitor; /* "carrel-vmm" or "qemu": what runs the machine; "none" */
	const char *accel;  /* part of a snapshot's key: "tcg,Nehalem,+arat", "kvm,host" */
	bool by_name; /* only who names it gets it: `auto` passes it over */
	bool saves;   /* save() and what is started from its files; else a machine lives as long as its host */
	/* 0 when this host can run it; else -ENODEV and the reason as a sentence. */
	int (*probe)(char *ret_why, unsigned size);
	int (*start)(struct engine *e, const struct vm_config *config, const struct vm_ops *ops, void *arg,
		     struct vm **ret);
	int (*adopt)(struct engine *e, const char *id, const struct vm_ops *ops, void *arg, struct vm **ret);
	/* Stop the vCPUs; run them again. done() follows. */
	int (*pause)(struct vm *vm);
	int (*resume)(struct vm *vm);
	/* Of a paused machine; pages_fd -1 for a VM_TEMPLATE, whose memory is in ram_fd
	 * already. Both open for reading and writing. done() follows. */
	int (*save)(struct vm *vm, int state_fd, int pages_fd);
	int (*stop)(struct vm *vm, const char *reason);
	int (*set_deadline)(struct vm *vm, uint64_t boottime_ns);
	/* From now on everything is told to another; between tasks, and before ended(). */
	void (*hand_over)(struct vm *vm, const struct vm_ops *ops, void *arg);
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
