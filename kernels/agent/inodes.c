#include "inodes.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent.h"
#include "util.h"

/* What carrel-init left of the disk under the overlay. */
#define DISK "/dev/carrel-scratch"
/* Beside the overlay's folders on it, where nobody inside comes. */
#define QUOTA_FILE "aquota.user"

/* On the same file system as the user's folder, out of the user's reach. */
#define TAKEN_FOLDER "/var/lib/carrel"
#define TAKEN TAKEN_FOLDER "/inodes"

enum {
	/* linux/fs/quota/quotaio_v2.h: magic and version of a file for users, and the size of its blocks. */
	QUOTA_MAGIC = 0xd9c01f11,
	QUOTA_VERSION = 1,
	QUOTA_FORMAT = 4, /* QFMT_VFS_V1 */
	QUOTA_BLOCK = 1024,
	/* A disk of 16 GiB has 128 groups, whose inodes come 16 at a time: what it was made with beyond what was
	 * asked for is less. */
	TAKEN_MAX = 8192,
};

/* An empty one: the header, and the root of a tree with nothing in it. */
struct quota_file {
	uint32_t magic, version;
	uint32_t block_grace, inode_grace, flags, blocks, free_block, free_entry;
	uint8_t rest[2 * QUOTA_BLOCK - 8 * sizeof(uint32_t)];
};
_Static_assert(sizeof(struct quota_file) == 2 * QUOTA_BLOCK, "two blocks");

static bool quota_on;

static int quota_file_make(const char *folder, char **ret)
{
	const struct quota_file empty = { .magic = htole32(QUOTA_MAGIC),
					  .version = htole32(QUOTA_VERSION),
					  .blocks = htole32(2) };
	cleanup_free char *path = xasprintf("%s/" QUOTA_FILE, folder);
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	if (write(fd, &empty, sizeof(empty)) != (ssize_t)sizeof(empty))
		return errno ? -errno : -EIO;
	*ret = path;
	path = NULL;
	return 0;
}

static int quota_begin(const char *folder)
{
	cleanup_free char *path = NULL;
	int err;

	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return -errno;
	/* The same file system once more, for as long as its quota is turned on. */
	if (mount(DISK, folder, "ext4", MS_NOATIME | MS_NODEV, NULL) < 0)
		return -errno;
	err = quota_file_make(folder, &path);
	if (!err && quotactl(QCMD(Q_QUOTAON, USRQUOTA), DISK, QUOTA_FORMAT, path) < 0)
		err = -errno;
	umount2(folder, MNT_DETACH);
	rmdir(folder);
	return err;
}

static int quota_limit(struct agent *a, uint64_t most)
{
	struct dqblk quota = { .dqb_ihardlimit = most, .dqb_valid = QIF_ILIMITS };
	cleanup_free char *folder = xasprintf("%s/disk", a->opt.run);
	int err = quota_on ? 0 : quota_begin(folder);

	if (err)
		return err;
	quota_on = true;
	return quotactl(QCMD(Q_SETQUOTA, USRQUOTA), DISK, (int)a->opt.uid, (caddr_t)&quota) < 0 ? -errno : 0;
}

static int take(uint64_t count)
{
	char name[32];
	cleanup_close int dir = -1;

	if (mkdir(TAKEN_FOLDER, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (mkdir(TAKEN, 0700) < 0 && errno != EEXIST)
		return -errno;
	dir = open(TAKEN, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	for (uint64_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%llu", (unsigned long long)i);
		if (mknodat(dir, name, S_IFREG | 0600, 0) < 0)
			return -errno;
	}
	return 0;
}

static int disk_inodes(struct agent *a, uint64_t *ret)
{
	struct statvfs fs;

	if (statvfs(a->opt.home, &fs) < 0)
		return -errno;
	*ret = fs.f_ffree;
	return 0;
}

/* Asked for again, there are no more than that. */
static int rest_take(struct agent *a, uint64_t most)
{
	uint64_t left = 0;
	int err = disk_inodes(a, &left);

	if (err || left <= most)
		return err;
	return left - most > TAKEN_MAX ? -EOPNOTSUPP : take(left - most);
}

int inodes_limit(struct agent *a, uint64_t most)
{
	if (!most || !a->opt.system)
		return 0;
	return a->opt.own_kernel ? quota_limit(a, most) : rest_take(a, most);
}
