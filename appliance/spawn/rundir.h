/* Runtime directories below $STATE/run, one per sandbox. All access goes
 * through descriptors of directories that root owns, never through a path that
 * another user could redirect. Functions return 0 (or a descriptor) or a
 * negative errno.
 */
#ifndef CARREL_SPAWN_RUNDIR_H
#define CARREL_SPAWN_RUNDIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "vmm/jail/cgroup.h"
#include "vmm/spawn_proto.h"

/* What the next carrel-spawn must know of a sandbox; kept in its directory,
 * for root only. */
struct rundir_record {
	uint32_t magic, version;
	uint32_t slot;
	uint32_t engine;
	uint64_t ram_dev, ram_ino; /* the snapshot it was cloned from; 0: none */
	struct cgroup cgroup;
};

/* Opens run_dir, making it root:gid 0750 when it is missing; refuses one that
 * others than root can write. On failure ret_message holds a sentence. */
int rundir_open_base(const char *run_dir, gid_t client_gid, char *ret_message, size_t size);

/* The control group of the sandboxes of an earlier carrel-spawn, which may have
 * been in another group itself; and this one's. -ENOENT: none is noted. */
int rundir_group_read(int base, struct cgroup *ret);
int rundir_group_write(int base, const struct cgroup *group);

/* Makes and opens base/ID (root:gid 0750); -EEXIST when it is there. */
int rundir_make(int base, const char *id, gid_t client_gid);
int rundir_open(int base, const char *id);
/* Removes base/ID with the files carrel-spawn and the keeper put there. */
int rundir_remove(int base, const char *id);

/* A bound SOCK_STREAM or SOCK_SEQPACKET socket file, mode 0600 of uid. */
int rundir_socket(int dir, const char *name, int type, uid_t owner);
int rundir_connect(int dir, const char *name, int type);
/* The three sockets; nothing listens there any more. */
void rundir_remove_sockets(int dir);

/* A new empty file root:gid 0640. */
int rundir_file(int dir, const char *name, gid_t client_gid);

int rundir_record_write(int dir, const struct rundir_record *record);
int rundir_record_read(int dir, struct rundir_record *ret);
/* The text of the file reason, or "crashed" when there is none. */
void rundir_reason_read(int dir, char *ret, size_t size);
int rundir_reason_write(int dir, const char *reason, gid_t client_gid);

#endif
