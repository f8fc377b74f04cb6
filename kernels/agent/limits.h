/* Limits inside the guest: everything that a request, a kernel or a process can
 * make the agent hold or wait for. Those that both ends of the link must agree
 * on stand in kernels/link/limits.h.
 */
#ifndef CARREL_AGENT_LIMITS_H
#define CARREL_AGENT_LIMITS_H

#include "link/limits.h"

enum {
	/* An id stands in a unix socket's path (107 bytes) and in a cgroup's name. */
	AGENT_ID_MAX = 64,
	AGENT_HOSTNAME_MAX = 63,

	/* Environment of a sandbox or a request, names and values: with JSON's
	 * escapes it must still fit a packet of a prepared parent. */
	AGENT_ENV_MAX = 64 * 1024,
	PARENT_PACKET_MAX = 128 * 1024,

	/* argv of a process: what a shell line needs, far below ARG_MAX. */
	AGENT_ARGV_MAX = 1024,

	/* One read of a process's pipe, hence one 'O' or 'E' frame. */
	PROCESS_READ_MAX = 64 * 1024,
	/* Milliseconds the pipes may stay open after a process ended (something it
	 * left behind holds them) before its end is told. */
	PROCESS_PIPE_GRACE_MS = 250,
	/* Reads in that time: twice what two pipes of the usual size hold. */
	PROCESS_GRACE_READS = 32,
	/* Milliseconds between two looks whether the end was acknowledged. */
	PROCESS_REAP_MS = 500,
	/* Pipes of ended processes that something left behind may still write to. */
	PROCESS_LEFT_PIPES_MAX = 64,

	/* Tail of a kernel's saved stderr that is told with its death. */
	KERNEL_CRASH_MAX = 8 * 1024,
	/* Milliseconds for a new kernel to answer kernel_info_request. An
	 * unprepared kernel imports for half a minute in software emulation. */
	KERNEL_START_MS = 180 * 1000,
	/* Milliseconds between kernel_info_requests until iopub is heard. */
	KERNEL_NUDGE_MS = 100,
	/* Milliseconds for interrupt_reply before SIGINT is sent as well. */
	KERNEL_INTERRUPT_MS = 1000,
	/* Milliseconds for a kernel to end after shutdown_request. */
	KERNEL_SHUTDOWN_MS = 2000,
	/* Milliseconds without a message after which a dead kernel's sockets count
	 * as empty although a process it left behind holds them open. */
	KERNEL_QUIET_MS = 200,
	/* So many deaths within so many milliseconds, without a request in
	 * between, end the restarting. */
	KERNEL_DEATHS_MAX = 3,
	KERNEL_DEATHS_MS = 10 * 1000,
	/* How long a start waits for the killed of the generation before; 500 processes took 10 s. */
	KERNEL_GONE_MS = 30 * 1000,
	/* Undroppable bytes kept while no host is attached before the kernel waits. */
	KERNEL_DETACHED_MAX = 8 * 1024 * 1024,

	/* Messages read from one socket of a kernel before others get their turn. */
	JUPYTER_TURN_MAX = 64,
	/* Messages libzmq reads ahead per socket, and the largest part of one:
	 * together the most it can hold. Larger than CHANNEL_FRAME_MAX, so that
	 * what is too large for the host is named, not cut off. Reading half of them
	 * costs a switch to libzmq's thread, a short cell is four. */
	JUPYTER_READ_AHEAD = 32,
	JUPYTER_PART_MAX = 64 * 1024 * 1024,
	/* Requests libzmq holds for a kernel that is busy. */
	JUPYTER_SEND_AHEAD = 1000,
	/* Milliseconds between attempts to connect to a kernel that starts. */
	JUPYTER_RECONNECT_MS = 10,

	/* Milliseconds for all parents and kernels to take a new identity. */
	IDENTITY_MS = 20 * 1000,
	/* Milliseconds for a prepared parent to fork a kernel. */
	PARENT_FORK_MS = 30 * 1000,
	/* Milliseconds before a prepared parent that died at once is started again. */
	PARENT_RETRY_MS = 1000,

	/* Path of a file, with its NUL. */
	FILE_PATH_MAX = 4096,
	/* Bytes of a download read at once. */
	FILE_READ_MAX = 128 * 1024,
	/* Entries of one answer to a listing. */
	FILE_LIST_DEFAULT = 100,
	FILE_LIST_MAX = 1000,
	/* Depth of a folder that is deleted with all it holds. */
	FILE_DELETE_DEPTH = 256,

	/* Memory kept from the work inside for the guest's kernel (80 MB were measured)
	 * beside what the agent and the parents are seen to hold. */
	RESERVE_MB = 96,
	/* The out-of-memory killer takes two a second of some hundred processes that all want memory: after so many
	 * within so long nothing gets done any more. */
	OOM_STORM_KILLS = 16,
	OOM_STORM_MS = 30 * 1000,
	/* How often its count is looked at where no event tells of it. */
	MEMORY_LOOK_MS = 1000,
	/* A smaller limit could not hold one kernel. */
	WORK_MIN_MB = 64,
	/* Processes and threads of all work inside, unless limits say otherwise. */
	PIDS_DEFAULT = 1024,

	/* Descriptors of the agent, and of what it starts. */
	AGENT_FILES_MAX = 65536,
	WORK_FILES_SOFT = 1024,

	LOG_LINES_MAX = 100,
	LOG_WINDOW_MS = 10 * 1000,
};

#endif
