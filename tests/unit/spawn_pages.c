/* UNIT: LIBS: */
/* Where guest memory is found in a process, and which tricks with it are refused. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

/* Alone: the rest of appliance/spawn has a main(). */
#include "appliance/spawn/pages_maps.c"

enum { PAGE = 4096, RAM = 16 * PAGE };

static int ram_fd, other_fd, proc;
static struct stat ram_stat;
static char *ram;

static int file_make(void)
{
	char path[] = "/tmp/carrel-maps-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	unlink(path);
	CHECK_INT(ftruncate(fd, RAM), 0);
	return fd;
}

static void map(char *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	CHECK(mmap(at, bytes, prot, flags | MAP_FIXED, fd, offset) == at);
}

/* As the preload leaves it. */
static void map_again(void)
{
	map(ram, RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE, ram_fd, 0);
}

static int find(struct pages_maps *m)
{
	return pages_maps_read(proc, ram_stat.st_dev, ram_stat.st_ino, m);
}

static int refused(void)
{
	struct pages_maps m;
	int err = find(&m);

	if (!err)
		pages_maps_free(&m);
	return err;
}

static void whole_memory_is_one_part(void)
{
	struct pages_maps m;
	struct stat st;

	CHECK_INT(find(&m), 0);
	CHECK_INT(m.base, (uintptr_t)ram);
	CHECK_INT(m.bytes, RAM);
	CHECK_INT(m.count, 1);
	CHECK_INT(m.parts[0].kind, PAGES_OF_SNAPSHOT);
	CHECK_INT(fstat(m.ram_fd, &st), 0);
	CHECK_INT(st.st_ino, ram_stat.st_ino);
	CHECK_INT(fcntl(m.ram_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	pages_maps_free(&m);
}

static void mapped_over_parts_are_told_apart(void)
{
	static const enum pages_kind kinds[] = { PAGES_OF_SNAPSHOT, PAGES_OF_FILE, PAGES_OF_SNAPSHOT,
						 PAGES_OF_NOTHING };
	struct pages_maps m;

	map(ram + 2 * PAGE, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, other_fd, PAGE);
	map(ram + 10 * PAGE, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_INT(find(&m), 0);
	CHECK_INT(m.count, 4);
	for (int i = 0; i < 4; i++)
		CHECK_INT(m.parts[i].kind, kinds[i]);
	/* What lies behind memory may have become one mapping with its end. */
	CHECK_INT(m.parts[3].end, (uintptr_t)ram + RAM);
	pages_maps_free(&m);
	map_again();
}

static void tricks_are_refused(void)
{
	char *twice = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE, ram_fd, 0);

	CHECK_INT(refused(), -EBADMSG);
	munmap(twice, RAM);
	CHECK_INT(refused(), 0);

	munmap(ram + 4 * PAGE, PAGE);
	CHECK_INT(refused(), -EBADMSG);
	map_again();

	map(ram + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, ram_fd, 5 * PAGE);
	CHECK_INT(refused(), -EBADMSG);
	map_again();

	map(ram + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other_fd, 0);
	CHECK_INT(refused(), -EBADMSG);
	map_again();

	CHECK_INT(mprotect(ram + 4 * PAGE, PAGE, PROT_READ), 0);
	CHECK_INT(refused(), -EBADMSG);
	map_again();

	munmap(ram, PAGE);
	CHECK_INT(refused(), -EBADMSG);
	map_again();
	CHECK_INT(refused(), 0);
}

int main(void)
{
	if (geteuid() != 0) {
		printf("needs root, as carrel-spawn is: to see the files behind mappings\n");
		return 77;
	}
	ram_fd = file_make();
	other_fd = file_make();
	CHECK_INT(fstat(ram_fd, &ram_stat), 0);
	proc = open("/proc/self", O_RDONLY | O_DIRECTORY);
	CHECK(proc >= 0);
	ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE, ram_fd, 0);
	CHECK(ram != MAP_FAILED);
	whole_memory_is_one_part();
	mapped_over_parts_are_told_apart();
	tricks_are_refused();
	munmap(ram, RAM);
	close(proc);
	close(ram_fd);
	close(other_fd);
	return 0;
}
