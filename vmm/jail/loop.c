#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	PATH_SIZE = 32,
	/* Somebody else may have been quicker with a free device, several times on a busy host. */
	LOOP_TRIES = 64,
};

static int device_configure(int device, int file_fd, bool writable)
{
	struct loop_config config = { .fd = (unsigned)file_fd,
				      .info.lo_flags = LO_FLAGS_AUTOCLEAR |
						       (writable ? LO_FLAGS_DIRECT_IO : LO_FLAGS_READ_ONLY) };

	return ioctl(device, LOOP_CONFIGURE, &config) != 0 ? -errno : 0;
}

/* An open device of the file; it is cleared when it is closed and not mounted. */
static int device_take(int control, int file_fd, bool writable, char path[PATH_SIZE])
{
	int n = ioctl(control, LOOP_CTL_GET_FREE), device, err;

	if (n < 0)
		return -errno;
	snprintf(path, PATH_SIZE, "/dev/loop%d", n);
	device = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (device < 0)
		return -errno;
	err = device_configure(device, file_fd, writable);
	if (!err)
		return device;
	close(device);
	return err;
}

static int device_open(int file_fd, bool writable, char path[PATH_SIZE])
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), device = -EBUSY;

	if (control < 0)
		return -errno;
	for (int i = 0; i < LOOP_TRIES && device == -EBUSY; i++)
		device = device_take(control, file_fd, writable, path);
	close(control);
	return device;
}

static int option(int fs, const char *name, const char *value)
{
	const unsigned command = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;

	return (int)syscall(SYS_fsconfig, fs, command, name, value, 0);
}

static int ext4_mount(const char *path, bool writable)
{
	int fs = (int)syscall(SYS_fsopen, "ext4", FSOPEN_CLOEXEC), fd = -1;
	const unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME |
				    (writable ? 0 : MOUNT_ATTR_RDONLY);

	if (fs < 0)
		return -errno;
	if (option(fs, "source", path) == 0 && option(fs, writable ? "discard" : "ro", NULL) == 0 &&
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
	int err = fd < 0 ? -errno : 0;
	close(fs);
	return err ? err : fd;
}

int loop_mount(int file_fd, bool writable)
{
	char path[PATH_SIZE];
	int device = device_open(file_fd, writable, path), fd;

	if (device < 0)
		return device;
	fd = ext4_mount(path, writable);
	close(device);
	return fd;
}
