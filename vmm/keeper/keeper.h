/* carrel-keeper: process 1 of a sandbox's PID namespace and parent of its QEMU (or carrel-vmm, or, for
 * the engine jail, the agent: what is said of QEMU in vmm/keeper holds for each of them).
 *
 * It holds the hard deadline (CLOCK_BOOTTIME), reaps, keeps bounded logs,
 * writes why the sandbox ended, and by exiting kills everything inside. It
 * lives on without carrel-spawn and carreld. It reads fixed structs from
 * keeper.sock (root only) and bytes of console and QEMU that it only stores.
 */
#ifndef CARREL_KEEPER_H
#define CARREL_KEEPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "log.h"
#include "vmm/jail/jail.h"
#include "vmm/jail/jail_limits.h"
#include "vmm/jail/keeper_proto.h"

struct keeper {
	struct keeper_config config;
	pid_t qemu;
	int signal_fd, timer_fd;
	int ready_fd; /* -1 once QEMU answered, or the agent is executed */
	unsigned ready_lines;
	int console_fd, qemu_fd;                 /* read ends of the pipes; -1 once closed */
	int connections[KEEPER_CONNECTIONS_MAX]; /* -1: free; the first is KEEPER_FD_PARENT */
	struct log console_log, qemu_log;
	bool ready;
};

/* Starts QEMU; 0, or a negative errno and a sentence. setup.c */
int keeper_setup(struct keeper *k, char *ret_message, size_t size);
/* Its last step: the child; k->qemu, and for the engine jail k->ready_fd. 0 or a negative errno. child.c */
int keeper_child_start(struct keeper *k, const struct jail *jail);
/* Serves until the sandbox ends; does not return. loop.c */
void keeper_run(struct keeper *k) __attribute__((noreturn));
/* 0 or a negative errno. loop.c */
int keeper_deadline_set(struct keeper *k, uint64_t boottime_ns);
void keeper_reply_started(const struct keeper *k, int error, const char *message);
/* The beginning of a sentence. setup.c */
const char *keeper_program_name(const struct keeper *k);
/* What jail.c is to do; the descriptors of the engine jail's namespaces are setup.c's to add. */
struct jail keeper_jail(const struct keeper *k);
/* Drains the pipes into the logs. loop.c */
void keeper_logs_drain(struct keeper *k);

#endif
