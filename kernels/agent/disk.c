#include "disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "agent.h"
#include "util.h"

/* On the same file system as the user's folder, out of the user's reach. */
#define BALLAST_FOLDER "/var/lib/carrel"
#define BALLAST BALLAST_FOLDER "/reserved"

static uint64_t reserved;

uint64_t disk_reserved(void)
{
	return reserved;
}

static int ballast_make(uint64_t bytes)
{
	cleanup_close int fd = -1;

	if (mkdir(BALLAST_FOLDER, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open(BALLAST, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (fallocate(fd, 0, 0, (off_t)bytes) < 0) {
		int err = -errno;

		unlink(BALLAST);
		return err;
	}
	return 0;
}

int disk_limit(struct agent *a, uint64_t disk_mb)
{
	struct statvfs fs;
	uint64_t size;
	int err;

	if (!a->opt.system)
		return 0;
	if (unlink(BALLAST) < 0 && errno != ENOENT && errno != ENOTDIR)
		return -errno;
	reserved = 0;
	if (statvfs(a->opt.home, &fs) < 0)
		return -errno;
	size = (uint64_t)fs.f_blocks * fs.f_frsize;
	if (!disk_mb || disk_mb << 20 >= size)
		return 0;
	err = ballast_make(size - (disk_mb << 20));
	if (!err)
		reserved = size - (disk_mb << 20);
	return err;
}
