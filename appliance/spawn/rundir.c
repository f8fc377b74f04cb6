#include "rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { RECORD_MAGIC = 0x4c525243, RECORD_VERSION = 2 };

static const char *const sockets[] = { "agent.sock", "qmp.sock", "control.sock", "keeper.sock" };

int rundir_open_base(const char *run_dir, gid_t client_gid, char *ret_message, size_t size)
{
	bool made = mkdir(run_dir, 0750) == 0;
	struct stat st;
	int fd;

	fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0) {
		int err = -errno;
		snprintf(ret_message, size, "Cannot open the runtime directory %s: %s.", run_dir,
			 strerror(-err));
		return err;
	}
	if (st.st_uid != 0 || (st.st_mode & 022)) {
		snprintf(ret_message, size,
			 "The runtime directory %s must belong to root and be writable by root only: remove "
			 "it, "
			 "carrel-spawn makes it.",
			 run_dir);
		close(fd);
		return -EPERM;
	}
	if (made && (fchown(fd, 0, client_gid) != 0 || fchmod(fd, 0750) != 0)) {
		int err = -errno;
		snprintf(ret_message, size, "Cannot give %s to group %u: %s.", run_dir, client_gid,
			 strerror(-err));
		close(fd);
		return err;
	}
	return fd;
}

int rundir_open(int base, const char *id)
{
	int fd = openat(base, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int rundir_make(int base, const char *id, gid_t client_gid)
{
	int fd;

	if (mkdirat(base, id, 0750) != 0)
		return -errno;
	fd = rundir_open(base, id);
	if (fd >= 0 && (fchown(fd, 0, client_gid) != 0 || fchmod(fd, 0750) != 0)) {
		int err = -errno;
		close(fd);
		unlinkat(base, id, AT_REMOVEDIR);
		return err;
	}
	return fd;
}

static void remove_files(int fd)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		close(fd);
		return;
	}
	while ((entry = readdir(dir)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
}

int rundir_remove(int base, const char *id)
{
	int fd = rundir_open(base, id);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	remove_files(fd);
	return unlinkat(base, id, AT_REMOVEDIR) != 0 ? -errno : 0;
}

/* Socket paths are short; the directory's need not be. */
static void address_of(struct sockaddr_un *ret, int dir, const char *name)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir, name);
}

int rundir_socket(int dir, const char *name, int type, uid_t owner)
{
	struct sockaddr_un address;
	mode_t mask;
	int fd, err;

	address_of(&address, dir, name);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	mask = umask(0177);
	err = bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ? -errno : 0;
	umask(mask);
	if (!err && fchownat(dir, name, owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW) != 0)
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

int rundir_connect(int dir, const char *name, int type)
{
	struct sockaddr_un address;
	int fd;

	address_of(&address, dir, name);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	int err = -errno;
	close(fd);
	return err;
}

void rundir_remove_sockets(int dir)
{
	for (size_t i = 0; i < sizeof(sockets) / sizeof(*sockets); i++)
		unlinkat(dir, sockets[i], 0);
}

static int file_new(int dir, const char *name, gid_t gid, mode_t mode)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	if (fchown(fd, 0, gid) == 0 && fchmod(fd, mode) == 0)
		return fd;
	int err = -errno;
	close(fd);
	return err;
}

int rundir_file(int dir, const char *name, gid_t client_gid)
{
	return file_new(dir, name, client_gid, 0640);
}

/* One struct as one file, for root only. */
static int struct_write(int dir, const char *name, const void *bytes, size_t size)
{
	int fd, err = 0;

	unlinkat(dir, name, 0);
	fd = file_new(dir, name, 0, 0600);
	if (fd < 0)
		return fd;
	if (write(fd, bytes, size) != (ssize_t)size)
		err = -EIO;
	close(fd);
	return err;
}

/* least: where the one of an earlier version ends, which lacks what has come to it since. */
static int struct_read(int dir, const char *name, void *ret, size_t least, size_t size)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	memset(ret, 0, size);
	n = read(fd, ret, size);
	close(fd);
	return n == (ssize_t)size || n == (ssize_t)least ? 0 : -EBADMSG;
}

static bool group_valid(const struct cgroup *group)
{
	for (int i = 0; i < CGROUP_DIRS; i++)
		if (memchr(group->dirs[i], '\0', CGROUP_PATH_MAX) == NULL ||
		    (group->dirs[i][0] != '\0' && group->dirs[i][0] != '/'))
			return false;
	return group->version == 1 || group->version == 2;
}

int rundir_record_write(int dir, const struct rundir_record *record)
{
	struct rundir_record r = *record;

	r.magic = RECORD_MAGIC;
	r.version = RECORD_VERSION;
	return struct_write(dir, "record", &r, sizeof(r));
}

int rundir_record_read(int dir, struct rundir_record *ret)
{
	struct rundir_record r;
	int err = struct_read(dir, "record", &r, offsetof(struct rundir_record, cgroup.dirs[CGROUP_IO]), sizeof(r));

	if (err)
		return err;
	if (r.magic != RECORD_MAGIC || r.version != RECORD_VERSION || r.slot >= SPAWN_SANDBOXES_MAX ||
	    !group_valid(&r.cgroup))
		return -EBADMSG;
	*ret = r;
	return 0;
}

int rundir_group_write(int base, const struct cgroup *group)
{
	return struct_write(base, ".group", group, sizeof(*group));
}

int rundir_group_read(int base, struct cgroup *ret)
{
	struct cgroup group;
	int err = struct_read(base, ".group", &group, offsetof(struct cgroup, dirs[CGROUP_IO]), sizeof(group));

	if (err)
		return err;
	if (!group_valid(&group))
		return -EBADMSG;
	*ret = group;
	return 0;
}

void rundir_reason_read(int dir, char *ret, size_t size)
{
	int fd = openat(dir, "reason", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, ret, size - 1);

	if (fd >= 0)
		close(fd);
	if (n > 0)
		ret[n] = '\0';
	else
		snprintf(ret, size, "crashed");
}

int rundir_reason_write(int dir, const char *reason, gid_t client_gid)
{
	int fd = openat(dir, "reason", O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		fd = rundir_file(dir, "reason", client_gid);
	if (fd < 0)
		return fd;
	if (write(fd, reason, strlen(reason)) < 0)
		err = -errno;
	close(fd);
	return err;
}
