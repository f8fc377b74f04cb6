/* Shared by the files of vmm/host; not for others. */
#ifndef CARREL_ENGINE_INNER_H
#define CARREL_ENGINE_INNER_H

#include <stdbool.h>

#include "qmp.h"
#include "spawn_link.h"
#include "vmm/engine.h"
#include "vmm/machine/control.h"

enum {
	/* What QEMU's main loop and disk threads may use beside the vCPUs, in
	 * thousandths of a CPU: without it a busy guest starves its own devices. */
	ENGINE_LOOP_CPU_MILLI = 200,
	/* QEMU itself, its stacks, firmware and page tables: measured 45-60 MiB. */
	ENGINE_QEMU_MB = 64,
	/* carrel-vmm and its page tables: some 3 MiB were measured. */
	ENGINE_VMM_MB = 16,
	/* The keeper, what the kernel keeps of namespaces and mounts, and what the agent needs to end work that
	 * has used up all the rest. */
	ENGINE_JAIL_MB = 48,
	/* From carrel-spawn's answer to a running machine. Measured 0.2 s. */
	VM_START_MS = 60 * 1000,
	/* Between the loss of the monitor and carrel-spawn's word that it ended. */
	VM_LOST_MS = 3 * 1000,
	/* Above PAGES_COPY_S of carrel-spawn. */
	VM_SAVE_MS = 120 * 1000,
	VM_PATH_MAX = 108, /* of a unix socket */
};

enum vm_state {
	VM_STARTING, /* carrel-spawn was asked */
	VM_OPENING,  /* monitor connection, then for a clone: the device state */
	VM_UP,
	VM_ENDED,
};

struct vmm_link;

/* How a machine is spoken to once carrel-spawn has started it. */
struct monitor_ops {
	const char *name;   /* the beginning of a sentence */
	const char *socket; /* in the runtime directory */
	bool freezes;       /* there is none: what carrel-spawn froze is a paused machine */
	/* What of a start is carrel-spawn's: descriptors by enum spawn_fd, their number and mask. 0 or negative errno. */
	int (*prepare)(struct vm *vm, const struct vm_config *c, int *ret_fds, unsigned *ret_n, uint32_t *ret_mask);
	/* From VM_OPENING to vm_up() or vm_abort(). */
	void (*open)(struct vm *vm);
	/* vm->task begins; vm_task_done() follows. What fails never was. */
	int (*go)(struct vm *vm);
	void (*close)(struct vm *vm);
};

/* Of its vCPUs. Once saved it can only go on or be stopped: QEMU saves no second time. */
enum vm_run { VM_RUNS, VM_PAUSED, VM_SAVED };

enum vm_task { TASK_NONE, TASK_PAUSE, TASK_RESUME, TASK_SAVE };

struct vm {
	struct vm *next;
	struct engine *engine;
	char id[SPAWN_ID_MAX];
	enum vm_mode mode;
	enum vm_state state;
	bool adopted;
	const struct vm_ops *ops;
	void *arg;
	const struct monitor_ops *monitor;
	struct qmp *qmp;       /* QEMU's */
	struct vmm_link *link; /* carrel-vmm's */
	uv_timer_t timer;
	enum vm_task task;
	bool stopping, stop_sent;
	char reason[SPAWN_REASON_MAX];   /* of stop() */
	char message[SPAWN_MESSAGE_MAX]; /* the first thing that went wrong */
	bool deadline_late;              /* to be sent once it may be */
	uint64_t deadline_boottime_ns;
	enum vm_run run;
	/* TASK_SAVE: own, -1: none */
	int state_fd, pages_fd;
	int spool_fd;                /* QEMU's device state, before it goes into state_fd */
	unsigned turns, turns_asked; /* of QEMU's loop, to settle */
	uint64_t pages_serial;       /* of the request to carrel-spawn; 0: not asked */
	/* carrel-vmm's: own, -1: none. Until it has them; a template's memory until it is saved. */
	int files[CONTROL_FILES];
	struct vm_class cls;
	char agent_path[VM_PATH_MAX], monitor_path[VM_PATH_MAX];
};

/* An ended machine whose runtime directory carrel-spawn is asked to remove, until it answers. */
struct forgotten {
	struct forgotten *next;
	char id[SPAWN_ID_MAX];
};

struct engine {
	uv_loop_t *loop;
	const struct engine_ops *ops;
	const char *run_dir;
	struct spawn_link *link;
	struct vm *vms;
	struct forgotten *forgotten;
};

/* engine.c: has it forgotten now, or when carrel-spawn is back. */
void engine_forget(struct engine *e, const char *id);
extern const struct engine_ops engine_tcg, engine_kvm, engine_kvm_qemu, engine_jail;
extern const struct monitor_ops monitor_qemu, monitor_vmm, monitor_jail;
/* vm.c */
void vm_reply(struct vm *vm, const struct spawn_reply *reply);
void vm_link_connected(struct vm *vm);
/* 0, or a negative errno: what is not sent is said again when carrel-spawn is back. */
int vm_send(struct vm *vm, uint32_t verb);
/* The one way to ended(); vm may be freed by it. */
void vm_end(struct vm *vm, const char *reason, const char *message);
/* Asks carrel-spawn to end it for a fault that this side found. */
void vm_abort(struct vm *vm, const char *reason, const char *message);
/* It runs. */
void vm_up(struct vm *vm);
/* "QEMU cannot WHAT: MESSAGE", and its end. */
void vm_failed(struct vm *vm, const char *what, const char *message);
/* The connection to its monitor is gone. Its keeper will tell; what does not end soon is ended. */
void vm_monitor_lost(struct vm *vm, int err, const char *message);
/* vm_task.c */
void vm_timer_start(struct vm *vm, uint64_t ms);
/* The monitor's answer to what go() began. */
void vm_task_done(struct vm *vm, int err, const char *message);
void vm_task_finish(struct vm *vm, int err, const char *message);
void vm_task_files_close(struct vm *vm);
/* -1 is none, and what it becomes. */
void vm_fd_close(int *fd);
int vm_pause(struct vm *vm);
int vm_resume(struct vm *vm);
int vm_save(struct vm *vm, int state_fd, int pages_fd);
/* qemu_monitor.c; as qmp_execute(), but every failure comes to done(). */
void vm_ask(struct vm *vm, const char *command, json_t *arguments, int fd, qmp_done done);
json_t *vm_capabilities(void);
/* qemu_save.c */
int qemu_go(struct vm *vm);
void vm_state_saved(struct vm *vm);
void vm_pages_replied(struct vm *vm, const struct spawn_reply *reply);
/* The connection that was to bring the reply is another now. */
void vm_pages_lost(struct vm *vm);
/* jail_monitor.c */
void vm_freezer_replied(struct vm *vm, const struct spawn_reply *reply);
/* qemu_program.c: the path of QEMU's program, NULL when there is none. */
const char *qemu_program_path(void);
int qemu_program_version(char *ret, unsigned size);

#endif
