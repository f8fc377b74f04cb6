/* carrel-spawn: the only root process of Carrel. It starts, stops and watches
 * sandboxes on fixed verbs (vmm/spawn_proto.h), through one keeper each, and
 * parses no HTTP, no JSON and no byte of a guest.
 *
 * One thread, one epoll loop. This header is private to appliance/spawn.
 */
#ifndef CARREL_SPAWN_H
#define CARREL_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "images.h"
#include "rundir.h"
#include "vmm/jail/cgroup.h"
#include "vmm/jail/jail_limits.h"
#include "vmm/jail/keeper_proto.h"
#include "vmm/spawn_proto.h"

enum {
	SPAWN_CLIENTS_MAX = 8, /* carreld has one connection per engine */
	/* Requests to one keeper that wait for its answer. */
	SANDBOX_PENDING_MAX = 16,
	/* A keeper that has not obeyed within this is killed with all that is inside. */
	SANDBOX_STOP_MS = 2000,
	/* Copies of memory at once: each is a process with 1 MiB of buffer, and the
	 * disk does not get faster. */
	SPAWN_COPIES_MAX = 64,
	SPAWN_EXIT_MS = 8000, /* all keepers at once, at --stop-on-exit */
	/* Reading is given more: a machine's first start may find nothing in the page cache, and readers hold up
	 * nobody's writes to a journal. */
	SPAWN_READS_PER_WRITE = 4,
	/* From --uid-base: a user of each sandbox's machine, one of each keeper, and a range
	 * for each sandbox of the engine jail. */
	SPAWN_UIDS_JAIL = 2 * SPAWN_SANDBOXES_MAX,
	SPAWN_UIDS = SPAWN_UIDS_JAIL + SPAWN_SANDBOXES_MAX * JAIL_SPACE_UIDS,
};

struct spawn;

/* What the loop calls when fd is ready; lives as long as the fd is watched. */
struct watch {
	int fd;
	void (*ready)(struct spawn *s, struct watch *w, uint32_t events);
};

struct client {
	struct watch watch; /* fd -1: free */
};

struct pending {
	struct client *client; /* NULL: gone meanwhile */
	uint64_t serial;
	uint32_t verb;
};

enum sandbox_state { SANDBOX_STARTING, SANDBOX_RUNNING, SANDBOX_ENDED };

struct sandbox {
	char id[SPAWN_ID_MAX];
	uint32_t slot;
	enum sandbox_state state;
	struct cgroup cgroup;
	struct watch keeper;                         /* connection to the keeper */
	struct watch exit;                           /* pidfd of the keeper */
	struct pending pending[SANDBOX_PENDING_MAX]; /* oldest first */
	unsigned pending_count;
	dev_t ram_dev;      /* of the snapshot it was cloned from */
	ino_t ram_ino;      /* 0: its memory is not a clone's */
	struct watch copy;  /* pidfd of the child that saves its memory; fd -1: none */
	int copy_result_fd; /* that child's pipe */
	struct pending copy_asker;
	uint64_t kill_at_ms;             /* 0: not asked to stop */
	char reason[SPAWN_REASON_MAX];   /* asked for by a stop, or why it ended */
	char failure[SPAWN_MESSAGE_MAX]; /* what the keeper said when the start failed */
	int failure_error;
};

struct spawn_options {
	const char *socket, *run_dir;
	const char *keeper, *preload;
	const char *vmm;            /* carrel-vmm; NULL: this start has none */
	char qemu[KEEPER_PATH_MAX]; /* real path */
	uid_t client_uid;
	gid_t client_gid;
	uid_t uid_base;
	bool jail; /* sandboxes of the engine jail may be started */
	bool jail_read_only;
	unsigned write_mb_s; /* what one sandbox may write to the disk; 0: as much as it can */
	bool stop_on_exit;
};

struct group_left; /* groups.c */

struct spawn {
	struct spawn_options options;
	int epoll_fd, run_fd;
	struct watch listener, signals;
	struct cgroup base; /* of what starts; what was adopted may lie in another */
	dev_t disk;         /* below the runtime directory; 0: none whose traffic can be limited */
	struct client clients[SPAWN_CLIENTS_MAX];
	struct sandbox *sandboxes[SPAWN_SANDBOXES_MAX]; /* by slot */
	struct group_left *groups_left;                 /* of sandboxes that ended */
	struct images images;                           /* of the engine jail */
	bool exiting;
	uint64_t exit_at_ms;
};

/* main.c */
int options_parse(struct spawn_options *ret, int argc, char **argv);
/* loop.c */
int watch_add(struct spawn *s, struct watch *w);
void watch_close(struct spawn *s, struct watch *w);
uint64_t now_ms(void);
int loop_open(struct spawn *s, char *ret_message, size_t size);
void loop_run(struct spawn *s);
/* groups.c */
/* Removes the control group of one in which nothing runs, now or as soon as the kernel lets it. An earlier base goes
 * with the last one in it. */
void groups_remove(struct spawn *s, const struct sandbox *b);
/* Its runtime directory goes when its group does; false: no group of that id is left. */
bool groups_forget(struct spawn *s, const char *id);
/* The id, and its group, is a new sandbox's. */
void groups_taken(struct spawn *s, const char *id);
/* Tries those again that are left; when to call again on now_ms()'s clock, or 0. */
uint64_t groups_retry(struct spawn *s, uint64_t now);
/* client.c */
void client_accept(struct spawn *s, struct watch *w, uint32_t events);
void client_reply(struct spawn *s, struct client *c, const struct spawn_reply *reply);
void client_broadcast_ended(struct spawn *s, const struct sandbox *b);
/* sandbox.c; each returns 0 (the reply is ready), 1 (it follows) or a negative errno and a sentence */
struct sandbox *sandbox_find(struct spawn *s, const char *id);
int sandbox_stop(struct spawn *s, struct sandbox *b, const char *reason);
int sandbox_deadline(struct spawn *s, struct sandbox *b, uint64_t boottime_ns, const struct pending *asker);
int sandbox_forget(struct spawn *s, struct sandbox *b);
void sandbox_client_gone(struct spawn *s, const struct client *c);
/* Kills what has not obeyed; the time of the next call, or 0. */
uint64_t sandbox_kill_late(struct spawn *s, uint64_t now);
/* Watches a keeper that runs; takes both descriptors. */
int sandbox_watch(struct spawn *s, struct sandbox *b, int keeper_fd, int pidfd);
void sandbox_free(struct spawn *s, struct sandbox *b);
void sandbox_end(struct spawn *s, struct sandbox *b);
/* start.c; fds[enum spawn_fd] stay the caller's */
int sandbox_start(struct spawn *s, const struct spawn_request *request, const int *fds,
		  const struct pending *asker, char *ret_message);
/* pages.c: as sandbox.c; fds[enum spawn_fd] stay the caller's */
int pages_start(struct spawn *s, struct sandbox *b, const int *fds, const struct pending *asker,
		char *ret_message);
/* The sandbox ends: so does a copy, and its asker is told. */
void pages_cancel(struct spawn *s, struct sandbox *b);
/* adopt.c */
void adopt_all(struct spawn *s);

#endif
