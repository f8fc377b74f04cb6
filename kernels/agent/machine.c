#include "machine.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/random.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "util.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define MACHINE_ID "/etc/machine-id"

int machine_set_clock(int64_t unix_ns)
{
	struct timespec ts = { .tv_sec = unix_ns / 1000000000, .tv_nsec = unix_ns % 1000000000 };

	return clock_settime(CLOCK_REALTIME, &ts) < 0 ? -errno : 0;
}

int machine_add_entropy(const uint8_t *bytes, size_t len)
{
	cleanup_close int fd = open("/dev/random", O_RDWR | O_CLOEXEC);
	cleanup_free struct rand_pool_info *info = xcalloc(1, sizeof(*info) + len);

	if (fd < 0)
		return -errno;
	info->entropy_count = (int)len * 8;
	info->buf_size = (int)len;
	memcpy(info->buf, bytes, len);
	if (ioctl(fd, RNDADDENTROPY, info) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
		return -errno;
	return 0;
}

int machine_set_hostname(const char *name)
{
	cleanup_free char *hosts = xasprintf("127.0.0.1\tlocalhost\n127.0.1.1\t%s\n::1\tlocalhost\n", name);
	cleanup_free char *line = xasprintf("%s\n", name);
	char now[HOST_NAME_MAX + 1] = "";
	int err;

	/* In a jail it is the host's to give, and has been given. */
	if (gethostname(now, sizeof(now)) < 0 || (strcmp(now, name) != 0 && sethostname(name, strlen(name)) < 0))
		return -errno;
	err = file_create("/etc/hosts", 0644, hosts, strlen(hosts));
	return err ? err : file_create("/etc/hostname", 0644, line, strlen(line));
}

/* In place, never longer than before: it works on a full file system as well. */
static int line_write(const char *path, const char *line)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444);

	if (fd < 0)
		return -errno;
	return pwrite(fd, line, strlen(line), 0) == (ssize_t)strlen(line) ? 0 : -EIO;
}

/* The same file every time, so that the mount made before a snapshot still shows it. */
static int bind_line(const char *run, const char *name, const char *value, const char *over)
{
	cleanup_free char *file = xasprintf("%s/%s", run, name);
	cleanup_free char *line = xasprintf("%s\n", value);
	char shown[128];
	int err = line_write(file, line);

	if (err)
		return err;
	if (file_read(over, shown, sizeof(shown)) >= 0 && strcmp(shown, line) == 0)
		return 0;
	if (access(over, F_OK) < 0) {
		err = file_create(over, 0444, "", 0);
		if (err)
			return err;
	}
	return mount(file, over, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

int machine_set_id(const char *run, const char *machine_id)
{
	return bind_line(run, "machine-id", machine_id, MACHINE_ID);
}

int machine_set_boot_id(const char *run, const char *boot_id)
{
	return bind_line(run, "boot_id", boot_id, BOOT_ID);
}

static const struct {
	const char *source, *target, *type, *options;
	unsigned long flags;
} mounts[] = {
	{ "proc", "/proc", "proc", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
	{ "sys", "/sys", "sysfs", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
	{ "dev", "/dev", "devtmpfs", "mode=0755", MS_NOSUID },
	{ "devpts", "/dev/pts", "devpts", "mode=0620,ptmxmode=0666", MS_NOSUID | MS_NOEXEC },
	{ "shm", "/dev/shm", "tmpfs", "mode=1777", MS_NOSUID | MS_NODEV },
	{ "run", "/run", "tmpfs", "mode=0755", MS_NOSUID | MS_NODEV },
	{ "cgroup2", "/sys/fs/cgroup", "cgroup2", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
};

static bool is_mounted(const char *target)
{
	cleanup_free char *parent = xasprintf("%s/..", target);
	struct stat st, up;

	return stat(target, &st) == 0 && stat(parent, &up) == 0 && st.st_dev != up.st_dev;
}

static int loopback_up(void)
{
	cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { .ifr_name = "lo" };

	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr) < 0)
		return -errno;
	ifr.ifr_flags |= IFF_UP | IFF_RUNNING;
	return ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

/* Open files are memory, which the control group of a kernel's children bounds. A number for all of the machine would let
 * one kernel's children take those of the other. */
static int files_unbounded(void)
{
	int err = file_write("/proc/sys/fs/file-max", "9223372036854775807");

	/* In a jail it is the host's. */
	return err == -EACCES || err == -EPERM || err == -EROFS ? 0 : err;
}

int machine_prepare(void)
{
	int err;

	size_t i;

	for (i = 0; i < ARRAY_SIZE(mounts); i++) {
		if (is_mounted(mounts[i].target))
			continue;
		if (mkdir(mounts[i].target, 0755) < 0 && errno != EEXIST)
			return -errno;
		if (mount(mounts[i].source, mounts[i].target, mounts[i].type, mounts[i].flags,
			  mounts[i].options) < 0) {
			log_line("cannot mount %s: %s", mounts[i].target, strerror(errno));
			return -errno;
		}
	}
	err = files_unbounded();
	return err ? err : loopback_up();
}
