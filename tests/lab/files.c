/* A guest for the lab's tests, alone in its initramfs with the image's modules: on
 * the scratch disk's ext4 some programs at once write files, and read them again
 * past the page cache; then the files go. Says on the console what came of it, and
 * waits at each step until the port says go on. Static. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 4, BLOCK = 16384, BLOCKS = 1024 /* of a file, a power of two */ };

static void modules_load(void)
{
	FILE *list = fopen("/modules/list", "re");
	char path[256];

	while (list && fgets(path, sizeof(path), list)) {
		path[strcspn(path, "\n")] = '\0';
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) != 0)
			printf("files: module %s: %m\n", path);
		close(fd);
	}
	if (list)
		fclose(list);
}

static void block_make(uint32_t *block, uint32_t writer, uint32_t number)
{
	uint32_t x = writer * 2654435761u + number + 1;

	for (size_t i = 0; i < BLOCK / sizeof(*block); i++)
		block[i] = x = x * 1664525u + 1013904223u;
}

static const char *file_of(unsigned writer)
{
	static char path[32];

	snprintf(path, sizeof(path), "/mnt/file%u", writer);
	return path;
}

/* Blocks in an order that is not the file's. */
static int file_write(unsigned writer)
{
	static uint32_t block[BLOCK / 4];
	int fd = open(file_of(writer), O_RDWR | O_CREAT | O_CLOEXEC, 0600), wrong = fd < 0;

	for (uint32_t i = 0; i < BLOCKS && !wrong; i++) {
		uint32_t number = (i * 389) % BLOCKS;

		block_make(block, writer, number);
		wrong = pwrite(fd, block, BLOCK, (off_t)number * BLOCK) != BLOCK ||
			(i % 128 == 0 && fsync(fd) != 0);
	}
	return wrong || fsync(fd) != 0 || close(fd) != 0;
}

static int file_check(unsigned writer)
{
	static uint32_t want[BLOCK / 4], got[BLOCK / 4];
	int fd = open(file_of(writer), O_RDONLY | O_CLOEXEC), wrong = 0;

	for (uint32_t i = 0; i < BLOCKS; i++) {
		block_make(want, writer, i);
		wrong += pread(fd, got, BLOCK, (off_t)i * BLOCK) != BLOCK || memcmp(want, got, BLOCK) != 0;
	}
	close(fd);
	return wrong > 0;
}

/* In a process each, all at once. */
static void all(const char *what, int (*one)(unsigned writer))
{
	int status, wrong = 0;

	for (unsigned i = 0; i < WRITERS; i++)
		if (fork() == 0)
			_exit(one(i));
	while (wait(&status) > 0)
		wrong += status != 0;
	printf("files: %s, %d wrong\n", what, wrong);
}

static void caches_drop(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	sync();
	if (write(fd, "3", 1) != 1)
		printf("files: caches stay: %m\n");
	close(fd);
}

static int port_open(void)
{
	char path[300];
	DIR *dir = opendir("/sys/class/virtio-ports");
	struct dirent *entry;
	int fd = -1;

	while (dir && fd < 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
	}
	if (dir)
		closedir(dir);
	return fd;
}

static void go_on(int port)
{
	char c;

	/* 0: no host is connected yet. */
	while (read(port, &c, 1) != 1)
		usleep(2000);
}

static void files_remove(void)
{
	struct fstrim_range range = { .len = UINT64_MAX };
	int fd = open("/mnt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; i < WRITERS; i++)
		unlink(file_of(i));
	sync();
	printf("files: trim %s\n", ioctl(fd, FITRIM, &range) == 0 ? "done" : "refused");
	close(fd);
}

int main(void)
{
	static const char *const mounts[][2] = { { "devtmpfs", "/dev" },
						 { "proc", "/proc" },
						 { "sysfs", "/sys" } };
	int port;

	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		mkdir(mounts[i][1], 0755);
		mount(mounts[i][0], mounts[i][1], mounts[i][0], 0, NULL);
	}
	setvbuf(stdout, NULL, _IONBF, 0);
	mkdir("/mnt", 0755);
	mkdir("/lower", 0755);
	modules_load();
	while ((port = port_open()) < 0)
		usleep(10000);
	printf("files: root %s\n",
	       mount("/dev/vda", "/lower", "ext4", MS_RDONLY, NULL) == 0 ? "mounted" : strerror(errno));
	printf("files: scratch %s\n",
	       mount("/dev/vdb", "/mnt", "ext4", MS_NOATIME, "discard") == 0 ? "mounted" : strerror(errno));
	all("written", file_write);
	caches_drop();
	all("read", file_check);
	go_on(port);
	files_remove();
	umount("/mnt");
	printf("files: over\n");
	reboot(RB_POWER_OFF);
}
