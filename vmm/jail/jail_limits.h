/* Limits of what runs inside a sandbox on the host's side: QEMU and its keeper.
 * Each has the reason beside it; none can be changed by a guest or by carreld.
 */
#ifndef CARREL_JAIL_LIMITS_H
#define CARREL_JAIL_LIMITS_H

enum {
	/* Size classes end at 4 GiB and 4 vCPUs; the rest is room for classes to come. */
	JAIL_MEMORY_MB_MIN = 64,
	JAIL_MEMORY_MB_MAX = 64 * 1024,
	JAIL_VCPUS_MAX = 16,
	JAIL_CPU_MILLI_MIN = 50,
	JAIL_CPU_MILLI_MAX = 64 * 1000,

	/* A TSC outside of this range is a mistake of the caller, not a machine. */
	JAIL_TSC_KHZ_MIN = 100 * 1000,
	JAIL_TSC_KHZ_MAX = 10 * 1000 * 1000,

	/* Threads and processes: vCPUs, QEMU's main loop, its pool of at most
	 * 64 disk workers, the keeper. */
	JAIL_PIDS_MAX = 160,

	/* Quota period. The kernel's default of 100 ms makes a small quota
	 * answer in steps that a person sees. */
	JAIL_CPU_PERIOD_US = 20 * 1000,

	/* Descriptors QEMU may hold: its files, event descriptors of every
	 * queue, one link and one monitor connection. */
	JAIL_NOFILE_MAX = 256,

	/* The engine jail's. Processes: what a sandbox may have (the agent limits
	 * its work below that), and the agent with its prepared parents. */
	JAIL_SPACE_PIDS_MAX = 1024 + 128,
	/* The agent's own limit, which what it starts may raise itself to. */
	JAIL_SPACE_NOFILE_MAX = 65536,
	/* Its users and groups, 0 to 65534, as Debian has them: a range for each slot. */
	JAIL_SPACE_UIDS = 65536,
	/* Sockets and small state, as in a microVM. */
	JAIL_SPACE_RUN_MB = 16,

	/* The root of the jail: mount points only, no file data. */
	JAIL_ROOT_KB = 64,

	/* console.log and qemu.log keep at least half of this from the end. */
	KEEPER_LOG_MAX = 64 * 1024,

	/* Connections to keeper.sock: one carrel-spawn, and the next one while
	 * the first is still closing. */
	KEEPER_CONNECTIONS_MAX = 4,

	/* QEMU must reach its main loop within this, on a loaded host too;
	 * measured 0.1 s idle. */
	KEEPER_READY_MS = 60 * 1000,

	/* QEMU's own translation buffer (tb-size) in MiB: 16 thrashes, the
	 * default may grow to 1 GiB in a hostile guest's hands. */
	QEMU_TB_MB = 32,
};

#endif
