/* At start: what an earlier carrel-spawn left. A keeper that answers on its
 * socket is watched again; a sandbox without one is an ended one. */
#include "spawn.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "request.h"

/* The keeper called listen() itself, so the peer's pid is its own; while the
 * connection stands the pid cannot have been given to another process. */
static int keeper_connect(int dir, int *ret_fd, int *ret_pidfd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int fd = rundir_connect(dir, "keeper.sock", SOCK_SEQPACKET), pidfd;

	if (fd < 0)
		return fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) {
		close(fd);
		return -ESRCH;
	}
	pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	if (pidfd < 0) {
		int err = -errno;
		close(fd);
		return err;
	}
	*ret_fd = fd;
	*ret_pidfd = pidfd;
	return 0;
}

/* Its keeper is gone; nothing may be left in its control group. */
static void adopt_ended(struct spawn *s, struct sandbox *b, int dir)
{
	bool empty = false;
	int err = cgroup_kill(&b->cgroup, &empty);

	if (!err && !empty)
		fprintf(stderr, "carrel-spawn: %s: processes without a keeper were killed\n", b->id);
	groups_remove(s, b);
	rundir_remove_sockets(dir);
	rundir_reason_read(dir, b->reason, sizeof(b->reason));
	b->state = SANDBOX_ENDED;
}

static int adopt_one(struct spawn *s, const char *id, int dir)
{
	struct rundir_record record;
	int fd = -1, pidfd = -1, err;
	struct sandbox *b;

	err = rundir_record_read(dir, &record);
	if (err)
		return err;
	if (s->sandboxes[record.slot])
		return -EEXIST;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	snprintf(b->id, sizeof(b->id), "%s", id);
	b->slot = record.slot;
	b->cgroup = record.cgroup;
	b->ram_dev = (dev_t)record.ram_dev;
	b->ram_ino = (ino_t)record.ram_ino;
	b->keeper.fd = b->exit.fd = b->copy.fd = -1;
	s->sandboxes[b->slot] = b;
	err = keeper_connect(dir, &fd, &pidfd);
	if (err) {
		adopt_ended(s, b, dir);
		return 0;
	}
	b->state = SANDBOX_RUNNING;
	err = sandbox_watch(s, b, fd, pidfd);
	if (err)
		sandbox_free(s, b);
	return err;
}

void adopt_all(struct spawn *s)
{
	int copy = dup(s->run_fd);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		int fd, err;

		if (!request_id_valid(entry->d_name, sizeof(entry->d_name)) ||
		    strlen(entry->d_name) >= SPAWN_ID_MAX)
			continue;
		fd = rundir_open(s->run_fd, entry->d_name);
		if (fd < 0)
			continue;
		err = adopt_one(s, entry->d_name, fd);
		close(fd);
		/* A start that never got as far as a record has nothing that runs. */
		if (err == -ENOENT || err == -EBADMSG)
			err = rundir_remove(s->run_fd, entry->d_name);
		if (err)
			fprintf(stderr, "carrel-spawn: %s: cannot take it over: %s\n", entry->d_name,
				strerror(-err));
	}
	if (dir)
		closedir(dir);
	else if (copy >= 0)
		close(copy);
}
