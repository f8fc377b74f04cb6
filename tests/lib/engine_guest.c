/* The guest of tests/integration/engine_*.py: takes the place of /init in the
 * image's initrd and answers lines on the port carrel.agent. Static. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char *memory;
static size_t memory_size;
static long count;

static void modules_load(void)
{
	FILE *list = fopen("/modules/list", "re");
	char path[256];

	while (list && fgets(path, sizeof(path), list)) {
		path[strcspn(path, "\n")] = '\0';
		int fd = open(path, O_RDONLY);
		if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) != 0)
			printf("guest: module %s: %m\n", path);
		close(fd);
	}
}

static int port_open(void)
{
	char path[300], name[64];

	for (;; usleep(10000)) {
		DIR *dir = opendir("/sys/class/virtio-ports");
		struct dirent *entry;

		while (dir && (entry = readdir(dir)) != NULL) {
			snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name", entry->d_name);
			FILE *f = fopen(path, "re");
			if (!f)
				continue;
			int found = fgets(name, sizeof(name), f) && strcmp(name, "carrel.agent\n") == 0;
			fclose(f);
			if (!found)
				continue;
			snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
			closedir(dir);
			return open(path, O_RDWR);
		}
		if (dir)
			closedir(dir);
	}
}

static void disks(FILE *out)
{
	char head[5] = "";
	int a = open("/dev/vda", O_RDONLY), w = open("/dev/vda", O_RDWR);
	int readable = a >= 0 && pread(a, head, 4, 0) == 4;

	/* A read-only disk may be opened for writing; the write is what fails. */
	int written = w >= 0 && pwrite(w, "x", 1, 8192) == 1 && fsync(w) == 0;
	fprintf(out, "disks %s %s\n", readable ? head : "none", written ? "written" : "read-only");
	close(a);
	close(w);
}

static void scratch_write(FILE *out, const char *text)
{
	char block[16] = "";
	int fd = open("/dev/vdb", O_RDWR);

	strncpy(block, text, sizeof(block) - 1);
	int ok = pwrite(fd, block, sizeof(block), 4096) == (ssize_t)sizeof(block) && fsync(fd) == 0;
	close(fd);
	fprintf(out, "%s\n", ok ? "wrote" : "failed");
}

static void scratch_read(FILE *out)
{
	char block[17] = "";
	int fd = open("/dev/vdb", O_RDONLY);

	if (pread(fd, block, 16, 4096) != 16)
		snprintf(block, sizeof(block), "failed");
	close(fd);
	fprintf(out, "read %s\n", block);
}

static void ping(FILE *out)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	fprintf(out, "pong %ld %ld.%03ld\n", ++count, (long)now.tv_sec, now.tv_nsec / 1000000);
}

static void draw(FILE *out)
{
	unsigned char bytes[16];

	fprintf(out, getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes) ? "random " : "failed");
	for (size_t i = 0; i < sizeof(bytes); i++)
		fprintf(out, "%02x", bytes[i]);
	fprintf(out, "\n");
}

enum { PAGE = 4096 };

static void grow(FILE *out, size_t mb)
{
	memory_size = mb << 20;
	memory = mmap(NULL, memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fprintf(out, memory == MAP_FAILED ? "failed\n" : "grown\n");
}

static void page_make(char *page, int seed, size_t number)
{
	memset(page, seed, PAGE);
	memcpy(page, &number, sizeof(number));
	page[PAGE - 1] = (char)(number * 7 + 1);
}

/* Every step-th page has a pattern, the others are zeros. */
static void paint(FILE *out, int seed, size_t step)
{
	for (size_t i = 0; i < memory_size / PAGE; i++)
		if (i % step == 0)
			page_make(memory + i * PAGE, seed, i);
		else
			memset(memory + i * PAGE, 0, PAGE);
	fprintf(out, "painted\n");
}

static void painted(FILE *out, int seed, size_t step)
{
	static char want[PAGE];
	size_t wrong = 0;

	for (size_t i = 0; i < memory_size / PAGE; i++) {
		memset(want, 0, PAGE);
		if (i % step == 0)
			page_make(want, seed, i);
		wrong += memcmp(want, memory + i * PAGE, PAGE) != 0;
	}
	fprintf(out, "wrong %zu\n", wrong);
}

/* Past the block cache, which is memory. */
static void disk_paint(FILE *out, int seed, size_t blocks, int check)
{
	static char want[PAGE] __attribute__((aligned(PAGE))), got[PAGE] __attribute__((aligned(PAGE)));
	int fd = open("/dev/vdb", O_RDWR | O_DIRECT);
	size_t wrong = 0;

	for (size_t i = 0; i < blocks; i++) {
		off_t at = (off_t)(1 << 20) + (off_t)i * PAGE;

		page_make(want, seed, i);
		if (check)
			wrong += pread(fd, got, PAGE, at) != PAGE || memcmp(want, got, PAGE) != 0;
		else
			wrong += pwrite(fd, want, PAGE, at) != PAGE;
	}
	close(fd);
	fprintf(out, "wrong %zu\n", wrong);
}

static void disk_discard(FILE *out, size_t blocks)
{
	const uint64_t range[2] = { 1 << 20, blocks * PAGE };
	int fd = open("/dev/vdb", O_RDWR);

	fprintf(out, ioctl(fd, BLKDISCARD, range) == 0 ? "discarded\n" : "failed\n");
	close(fd);
}

/* More than the link holds: it waits for a reader. */
static void spew(FILE *out)
{
	for (int i = 0; i < 40000; i++)
		fprintf(out, "spew %06d ..................\n", i);
	fprintf(out, "spewed\n");
}

static void clock_source(FILE *out)
{
	char name[64] = "";
	FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");

	if (!f || !fgets(name, sizeof(name), f))
		snprintf(name, sizeof(name), "?\n");
	if (f)
		fclose(f);
	fprintf(out, "clocksource %s", name);
}

static void panic(void)
{
	int fd = open("/proc/sysrq-trigger", O_WRONLY);

	if (write(fd, "c", 1) != 1)
		reboot(RB_AUTOBOOT);
}

static int command_memory(FILE *out, const char *line)
{
	int seed, n;

	if (sscanf(line, "grow %d", &n) == 1)
		grow(out, (size_t)n);
	else if (sscanf(line, "paint %d %d", &seed, &n) == 2)
		paint(out, seed, (size_t)n);
	else if (sscanf(line, "painted %d %d", &seed, &n) == 2)
		painted(out, seed, (size_t)n);
	else if (sscanf(line, "dpaint %d %d", &seed, &n) == 2)
		disk_paint(out, seed, (size_t)n, 0);
	else if (sscanf(line, "dpainted %d %d", &seed, &n) == 2)
		disk_paint(out, seed, (size_t)n, 1);
	else if (sscanf(line, "ddiscard %d", &n) == 1)
		disk_discard(out, (size_t)n);
	else
		return 0;
	return 1;
}

static void command(FILE *out, char *line)
{
	if (command_memory(out, line)) {
	} else if (strncmp(line, "echo ", 5) == 0) {
		fprintf(out, "%s\n", line + 5);
	} else if (strcmp(line, "spew") == 0) {
		spew(out);
	} else if (strcmp(line, "ping") == 0) {
		ping(out);
	} else if (strcmp(line, "random") == 0) {
		draw(out);
	} else if (strncmp(line, "fill ", 5) == 0) {
		memset(memory, atoi(line + 5), memory_size);
		fprintf(out, "filled\n");
	} else if (strcmp(line, "sum") == 0) {
		fprintf(out, "sum %d %d\n", memory[0], memory[memory_size - 1]);
	} else if (strcmp(line, "disks") == 0) {
		disks(out);
	} else if (strncmp(line, "write ", 6) == 0) {
		scratch_write(out, line + 6);
	} else if (strcmp(line, "read") == 0) {
		scratch_read(out);
	} else if (strcmp(line, "clocksource") == 0) {
		clock_source(out);
	} else if (strcmp(line, "flood") == 0) {
		for (int i = 0; i < 4000; i++)
			printf("flood %06d ..................................................\n", i);
		/* A full pipe loses text; this line must come through. */
		sleep(1);
		printf("flood ends\n");
		fprintf(out, "flooded\n");
	} else if (strcmp(line, "spin") == 0) {
		for (volatile int i = 0;; i = i + 1)
			;
	} else if (strcmp(line, "panic") == 0) {
		panic();
	} else if (strcmp(line, "off") == 0) {
		reboot(RB_POWER_OFF);
	} else {
		fprintf(out, "what?\n");
	}
	fflush(out);
}

int main(void)
{
	char line[128];
	size_t used = 0;
	int port;

	for (size_t i = 0; i < 3; i++) {
		static const char *const mounts[][2] = { { "devtmpfs", "/dev" },
							 { "proc", "/proc" },
							 { "sysfs", "/sys" } };

		mkdir(mounts[i][1], 0755);
		mount(mounts[i][0], mounts[i][1], mounts[i][0], 0, NULL);
	}
	setvbuf(stdout, NULL, _IONBF, 0);
	modules_load();
	memory_size = 32 << 20;
	memory = aligned_alloc(PAGE, memory_size);
	port = port_open();
	printf("guest: ready\n");
	FILE *out = fdopen(dup(port), "w");
	for (;;) {
		char c;
		/* 0: no host is connected. */
		if (read(port, &c, 1) != 1) {
			usleep(2000);
			continue;
		}
		if (c != '\n') {
			line[used] = c;
			used += used < sizeof(line) - 1;
			continue;
		}
		line[used] = '\0';
		used = 0;
		command(out, line);
	}
}
