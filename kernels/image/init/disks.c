#include "disks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"

enum {
	/* Disks that are looked at: vda to vdh; an engine attaches two. */
	DISK_LETTERS = 8,
	/* A loaded host emulating this machine in software takes seconds for
	 * what takes milliseconds otherwise. */
	DISK_WAIT_MS = 60 * 1000,

	/* The ext4 superblock. */
	EXT4_SUPERBLOCK = 1024,
	EXT4_MAGIC_OFFSET = 0x38,
	EXT4_LABEL_OFFSET = 0x78,
	EXT4_LABEL_SIZE = 16,
};

static bool disk_has_label(const char *path, const char *label)
{
	uint8_t block[EXT4_LABEL_OFFSET + EXT4_LABEL_SIZE];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = pread(fd, block, sizeof(block), EXT4_SUPERBLOCK);
	close(fd);
	if (got != (ssize_t)sizeof(block))
		return false;
	if (block[EXT4_MAGIC_OFFSET] != 0x53 || block[EXT4_MAGIC_OFFSET + 1] != 0xef)
		return false;
	return strncmp((const char *)block + EXT4_LABEL_OFFSET, label, EXT4_LABEL_SIZE) == 0;
}

static bool disk_find(const char *label, char *ret_path, size_t size)
{
	for (int i = 0; i < DISK_LETTERS; i++) {
		char path[] = "/dev/vda";

		path[sizeof(path) - 2] = (char)('a' + i);
		if (disk_has_label(path, label)) {
			snprintf(ret_path, size, "%s", path);
			return true;
		}
	}
	return false;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_for_node(int watch, int64_t deadline, const char *label)
{
	char events[4096];
	struct pollfd waited = { .fd = watch, .events = POLLIN };
	int64_t left = deadline - now_ms();

	if (left <= 0)
		init_fail(0, "no disk labelled %s appeared within %d seconds", label, DISK_WAIT_MS / 1000);
	if (poll(&waited, 1, (int)left) > 0 && read(watch, events, sizeof(events)) < 0 && errno != EINTR)
		init_fail(errno, "cannot watch /dev");
}

void disk_wait(const char *label, char *ret_path, size_t size)
{
	int64_t deadline = now_ms() + DISK_WAIT_MS;
	int watch = inotify_init1(IN_CLOEXEC);

	/* The watch comes before the first look, so no node is missed between. */
	if (watch < 0 || inotify_add_watch(watch, "/dev", IN_CREATE | IN_ATTRIB) < 0)
		init_fail(errno, "cannot watch /dev");
	while (!disk_find(label, ret_path, size))
		wait_for_node(watch, deadline, label);
	close(watch);
}
