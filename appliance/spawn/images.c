#include "images.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/jail/loop.h"

#define DIR_NAME ".images"

/* Where nobody else sees them, and nothing of them stays. */
static int images_open(struct images *i, const char *run_dir)
{
	char path[PATH_MAX];

	if (i->dir_fd >= 0)
		return 0;
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return -errno;
	/* By its path: descriptors from before are of mounts that this process has left. */
	if (snprintf(path, sizeof(path), "%s/" DIR_NAME, run_dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return -errno;
	i->dir_fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return i->dir_fd < 0 ? -errno : 0;
}

static struct image_mount *mount_find(struct images *i, const struct stat *st)
{
	for (int k = 0; k < IMAGES_MAX; k++)
		if (i->mounts[k].fd > 0 && i->mounts[k].dev == st->st_dev && i->mounts[k].ino == st->st_ino)
			return &i->mounts[k];
	return NULL;
}

/* A free place, or that of the one that was used longest ago. */
static struct image_mount *mount_place(struct images *i)
{
	struct image_mount *oldest = &i->mounts[0];

	for (int k = 0; k < IMAGES_MAX; k++)
		if (i->mounts[k].fd <= 0 || i->mounts[k].used < oldest->used)
			oldest = &i->mounts[k];
	return oldest;
}

static void mount_drop(struct image_mount *m)
{
	char path[40];

	if (m->fd <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", m->fd);
	umount2(path, MNT_DETACH);
	close(m->fd);
	*m = (struct image_mount){ .fd = 0 };
}

/* One above the other: each is reached by its own descriptor. Only what is attached can be cloned. */
static int mount_new(struct images *i, int file_fd, const struct stat *st, struct image_mount **ret)
{
	struct image_mount *m = mount_place(i);
	int fd = loop_mount(file_fd, false), err;

	if (fd < 0)
		return fd;
	if (syscall(SYS_move_mount, fd, "", i->dir_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0) {
		err = -errno;
		close(fd);
		return err;
	}
	mount_drop(m);
	*m = (struct image_mount){ .dev = st->st_dev, .ino = st->st_ino, .fd = fd };
	*ret = m;
	return 0;
}

int images_mount(struct images *i, const char *run_dir, int file_fd)
{
	struct image_mount *m;
	struct stat st;
	int err = images_open(i, run_dir), fd;

	if (!err && fstat(file_fd, &st) != 0)
		err = -errno;
	if (err)
		return err;
	m = mount_find(i, &st);
	if (!m)
		err = mount_new(i, file_fd, &st, &m);
	if (err)
		return err;
	m->used = ++i->uses;
	fd = (int)syscall(SYS_open_tree, m->fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
